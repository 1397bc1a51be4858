import { types } from "node:util";
import { openPayload } from "../codec/payload.js";
import type { StorageAdapter } from "../contract/adapter.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../contract/corrupt-record.js";
import { UnsupportedOperationError } from "../contract/errors.js";
import { isRecord, type LogItem, type RecordHeader, type RecordQuery, type TaskLog } from "../contract/log.js";
import { ifIntact, nothingIntactError } from "./damage.js";
import type { ResolvedOptions } from "./options.js";
import type { CheckpointReader } from "./reader.js";

/** A record of a task's log with its value, or a checkpoint without its state. */
export type TaskRecord =
  | (CheckpointSummary & { readonly kind: "checkpoint" })
  | (Omit<RecordHeader, "payload" | "seal"> & {
      /** The value as stored. Missing if an event's body was removed; then `sizeBytes` is 0. */
      readonly value?: unknown;
    });

/** @internal Reads the records of logs from the storage: checks seals and digests, decodes values, and skips damage. */
export class RecordReader {
  readonly #options: ResolvedOptions;
  readonly #reader: CheckpointReader;

  constructor(options: ResolvedOptions, reader: CheckpointReader) {
    this.#options = options;
    this.#reader = reader;
  }

  /**
   * Yields the intact items of the query. Damaged items don't count towards its limit.
   *
   * @throws {CheckpointCorruptError} Items are damaged, and the task has nothing intact.
   */
  async *read({ limit, ...query }: RecordQuery): AsyncGenerator<TaskRecord, void, void> {
    if (limit === 0) return;
    const log = requireLog(this.#options.storage, "records");
    const damaged: CorruptRecord[] = [];
    let count = 0;
    for await (const item of log.read(query)) {
      const opening = this.#open(item);
      const entry = types.isPromise(opening) ? await opening : opening;
      if (isCorrupt(entry)) {
        this.#reader.reportDamage(entry, damaged);
        continue;
      }
      yield entry;
      count += 1;
      if (count === limit) return;
    }
    if (count > 0 || damaged.length === 0) return;
    // The task may have intact items that the query doesn't select.
    const { taskId } = query;
    for await (const item of log.read({ taskId, order: "newest" })) if (!isCorrupt(await this.#open(item))) return;
    throw nothingIntactError(`The log of task ${JSON.stringify(taskId)} has nothing intact`, damaged);
  }

  #open(item: LogItem): TaskRecord | CorruptRecord | Promise<TaskRecord | CorruptRecord> {
    if (isCorrupt(item)) return item;
    if (!isRecord(item)) return { ...item, kind: "checkpoint" };
    return ifIntact(item, ({ payload, seal: _seal, ...record }) => {
      if (!("body" in payload)) return { sizeBytes: 0, ...record };
      const opened = openPayload(payload, { transforms: this.#options.transforms, context: record });
      const { body } = payload;
      const sizeBytes = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
      const decode = ({ state: value }: { readonly state: unknown }) => ({ ...record, sizeBytes, value });
      return types.isPromise(opened) ? opened.then(decode) : decode(opened);
    });
  }
}

/**
 * Returns the storage's log.
 *
 * @param what - What needs the log, for the message.
 * @throws {UnsupportedOperationError} The adapter keeps no log.
 */
export function requireLog({ name, log }: Pick<StorageAdapter, "name" | "log">, what: string): TaskLog {
  if (log !== undefined) return log;
  throw new UnsupportedOperationError(
    `The ${name} adapter keeps no log, and ${what} needs one. Nothing was changed; use a storage with \`log\`.`,
  );
}
