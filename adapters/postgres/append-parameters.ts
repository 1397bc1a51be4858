import { sealedParts } from "../../src/contract/checkpoint.js";
import { type RecordDraft, splitSealedRecord } from "../../src/contract/log.js";
import { findDueTime } from "../../src/contract/transient.js";
import { type Append, getTaskId } from "../sql/adapter.js";
import { toBuffer } from "../sql/history.js";
import type { LogAppend } from "../sql/records.js";
import { listColumns } from "../sql/rows.js";
import { digestId, nameLastText, toBytes, toColumn } from "./columns.js";
import type { PayloadForm } from "./histories.js";
import { DRAFT_COLUMNS } from "./statements/append.js";
import type { PostgresStatements } from "./statements.js";
import type { Replaced } from "./transient.js";

/** An append of a checkpoint, with its payload in the form in which it will be stored. */
export interface PlacedAppend extends Append {
  /** The checkpoint that the append replaces. */
  readonly replaced?: Replaced | undefined;
  readonly piece: PayloadForm;
}

/** Makes the statement of appends to different tasks. */
export function makeAppendStatement(
  sql: PostgresStatements,
  appends: readonly (PlacedAppend | LogAppend)[],
): readonly [text: string, ...values: unknown[]] {
  const checkpoints = appends.filter((append) => "draft" in append);
  const parts = {
    hasCheckpoints: checkpoints.length > 0,
    hasRecords: appends.some((append) => listRecords(append).length > 0),
    hasPieces: checkpoints.some(({ piece }) => piece.form > 0),
    mayBegin: appends.some(mayBegin),
    isFenced: appends.some(({ condition }) => condition.fencingToken !== undefined),
    isReplacing: checkpoints.some(({ replaced }) => replaced !== undefined),
  };
  const isLazy = appends.every((append) => !("draft" in append) && append.options.lazy === true);
  const bodies = new Bodies();
  const [only, ...others] = appends;
  if (only !== undefined && others.length === 0) {
    const { text, names } = sql.append(parts);
    const records = describeRecords(only, bodies);
    const row = describeAppend(only, isLazy);
    row["body"] = "draft" in only ? toBuffer(toBytes(only.piece)) : null;
    row["records"] = records && toJson(records);
    row["record_bodies"] = bodies.join();
    return [text, ...names.map((name) => row[name] ?? null)];
  }
  const rows = appends.map((append) => ({
    ...describeAppend(append, isLazy),
    ...("draft" in append && bodies.add(toBytes(append.piece))),
    records: describeRecords(append, bodies),
  }));
  return [sql.acrossTasks.append(parts), toJson(rows), bodies.join()];
}

/** Whether the append may be the first one of its task. */
function mayBegin(append: PlacedAppend | LogAppend): boolean {
  const isAfterOthers = (append.condition.expectedSequence ?? 0) > 0;
  return !isAfterOthers && !("draft" in append && (append.piece.after?.length ?? 0) > 0);
}

/** The records that an append stores. */
export function listRecords(append: Append | LogAppend): readonly RecordDraft[] {
  return ("draft" in append ? append.options.records : append.records) ?? [];
}

/** The values of an append or a record, by their names in `statements/append.ts`. */
type Row = Record<string, unknown>;

function describeAppend(append: PlacedAppend | LogAppend, isLazy: boolean): Row {
  const { condition } = append;
  const records = listRecords(append);
  const lastEvent = records.findLastIndex(({ id }) => id !== undefined);
  const row = "draft" in append ? describeCheckpoint(append) : describeLogAppend(append);
  row["expected"] = condition.expectedSequence;
  row["no_event_after"] = condition.noEventAfter;
  row["token"] = condition.fencingToken;
  row["last_event"] = lastEvent === -1 ? undefined : lastEvent + 1;
  row["is_lazy"] = isLazy;
  return row;
}

function describeCheckpoint({ draft, options, replaced, piece }: PlacedAppend): Row {
  const { taskId, id, payload } = draft;
  const [before, after] = sealedParts(draft);
  const columns: Record<string, unknown> = {};
  for (const [at, value] of listColumns(draft).entries()) columns[DRAFT_COLUMNS[at] ?? ""] = value;
  return {
    ...columns,
    task_id: taskId,
    is_text: typeof payload.body === "string",
    id_digest: toHex(digestId(id)),
    before,
    after,
    task_due_at: findDueTime(draft),
    size: (options.records?.length ?? 0) + 1,
    chosen: options.sequence,
    form: piece.form,
    builds_on: piece.after && toHex(piece.after),
    last_text: piece.text && toHex(nameLastText(payload.sha256, id)),
    replaced: replaced?.sequence,
    replaced_seals: replaced?.seals.join(" "),
  };
}

function describeLogAppend({ taskId, records, options: { firstSequence, dueAt } }: LogAppend): Row {
  return {
    task_id: taskId,
    created_at: records.at(-1)?.createdAt,
    task_due_at: dueAt,
    size: records.length,
    chosen: firstSequence === undefined ? undefined : firstSequence + records.length - 1,
  };
}

/** Describes the records by their `RECORD_VALUES`. Adds their bodies to `bodies`. */
function describeRecords(append: PlacedAppend | LogAppend, bodies: Bodies): readonly Row[] | undefined {
  const records = listRecords(append);
  if (records.length === 0) return undefined;
  const taskId = getTaskId(append);
  return records.map((draft, index) => {
    const { kind, name, recordKey, id, createdAt, payload } = draft;
    const [before, after] = splitSealedRecord(taskId, draft);
    const bytes = toBytes(payload);
    return {
      number: index + 1,
      kind,
      name,
      record_key: recordKey,
      id,
      id_digest: id === undefined ? undefined : toHex(digestId(id)),
      created_at: createdAt,
      encoding: payload.encoding,
      sha256: `\\x${payload.sha256}`,
      size_bytes: bytes.length,
      is_text: typeof payload.body === "string",
      before,
      after,
      ...bodies.add(bytes),
    };
  });
}

/** Concatenates bodies into one parameter, since JSON can't contain bytes. */
class Bodies {
  readonly #all: Buffer[] = [];
  #end = 0;

  /** Adds a body, and returns its range. */
  add(body: Buffer): { readonly body_start: number; readonly body_length: number } {
    // PostgreSQL counts bytes from 1.
    const range = { body_start: this.#end + 1, body_length: body.length };
    this.#all.push(body);
    this.#end += body.length;
    return range;
  }

  join(): Buffer {
    const [only] = this.#all;
    return this.#all.length === 1 && only ? only : Buffer.concat(this.#all);
  }
}

function toJson(rows: readonly Row[]): string {
  const json = JSON.stringify(rows);
  // Only texts with U+0000 or U+0001 need `toColumn`. A replacer takes four times as long as the rest of this function.
  if (!json.includes("\\u000")) return json;
  return JSON.stringify(rows, (_, value) => (typeof value === "string" ? toColumn(value) : value));
}

/** Renders bytes as PostgreSQL parses them in JSON and in a parameter. */
function toHex(bytes: Buffer): string {
  return `\\x${bytes.toString("hex")}`;
}
