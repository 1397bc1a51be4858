import { setImmediate } from "node:timers/promises";
import type { CheckpointSummary, StoredCheckpoint } from "../../src/contract/checkpoint.js";
import { isCorrupt } from "../../src/contract/corrupt-record.js";
import { CheckpointCorruptError, UnsupportedFormatError } from "../../src/contract/errors.js";
import type {
  CheckedRecord,
  DamagedFinding,
  RefusedFinding,
  RepairStep,
  StorageFinding,
  StorageMaintenance,
  StorageRepair,
  StorageVerification,
} from "../../src/contract/findings.js";
import { makeFinding, makeRecordFinding } from "../../src/contract/header-index.js";
import { isRecord, type LogItem, toRecordHeader } from "../../src/contract/log.js";
import { damageInTaskRow } from "./damage.js";
import type { PageRow } from "./pages.js";
import type { SqlRow } from "./rows.js";

/** Gives maintenance access to a database's tables. The methods find nothing if there are no tables. */
export interface MaintainedTables {
  readonly location: string;
  readonly names: { readonly tasks: string; readonly quarantine: string };
  /** Advice for a database that is damaged as a whole. */
  readonly advice: string;
  /** Returns the damage that the database's own check finds. If it finds any, nothing else is checked. */
  integrity?(quick: boolean): Promise<readonly string[]>;
  taskIds(): AsyncIterable<string>;
  /** Yields the task's checkpoints, the oldest first; with `quick`, without payloads. */
  checkpoints(taskId: string, quick: boolean): AsyncIterable<PageRow<CheckpointSummary | StoredCheckpoint>>;
  locate(taskId: string, key: unknown): string;
  /** Yields the task's records, including damaged ones; with `quick`, without bodies. */
  records(taskId: string, quick: boolean): AsyncIterable<LogItem>;
  locateRecord(taskId: string, sequence: number): string;
  taskRow(taskId: string): Promise<SqlRow | undefined>;
  /**
   * Moves a damaged checkpoint's row into quarantine, in one transaction. Returns false if another process has moved or
   * removed the row since it was read.
   */
  moveCheckpoint(taskId: string, key: unknown): Promise<boolean>;
  /** Like {@link moveCheckpoint}, for a record's row. */
  moveRecord(taskId: string, sequence: number): Promise<boolean>;
  /**
   * Makes the task's row agree with its checkpoints and records, in one transaction. Returns false if the row already
   * agrees.
   */
  rewriteTaskRow(taskId: string): Promise<boolean>;
}

/** A finding, and a function that moves its row away. If `move` is missing, repair leaves the row. */
interface Wrong {
  readonly finding: DamagedFinding | RefusedFinding;
  readonly move?: () => Promise<boolean>;
}

/** Finds damaged rows, and moves them to the quarantine table. */
export class SqlMaintenance implements StorageMaintenance {
  readonly #tables: MaintainedTables;

  constructor(tables: MaintainedTables) {
    this.#tables = tables;
  }

  async *verify({ quick }: StorageVerification): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
    for await (const item of this.#inspect(quick)) yield "finding" in item ? item.finding : item;
  }

  async *repair({ dryRun, signal }: StorageRepair): AsyncGenerator<RepairStep, void, void> {
    const { location, names, advice } = this.#tables;
    if (signal?.aborted) return;
    for await (const item of this.#inspect(false)) {
      if (signal?.aborted) return;
      if (!("finding" in item)) continue;
      const { finding, move } = item;
      if (finding.kind === "refused") {
        yield { action: "left", finding, advice: "It isn't damaged. The finding's reason says what to do." };
      } else if (move === undefined) yield { action: "left", finding, advice };
      else if (dryRun || (await move())) {
        yield { action: "quarantined", finding, to: `${location}, table ${names.quarantine}` };
      }
    }
  }

  async *#inspect(quick: boolean): AsyncGenerator<Wrong | CheckedRecord, void, void> {
    const tables = this.#tables;
    const location = tables.location;
    try {
      const reasons = (await tables.integrity?.(quick)) ?? [];
      for (const reason of reasons) yield { finding: { kind: "damaged", location, reason } };
      if (reasons.length > 0) return;
      for await (const taskId of tables.taskIds()) {
        yield* this.#inspectTask(taskId, quick);
        // SQLite answers synchronously, so without this turn, timers and `close` would wait for the last task.
        await setImmediate();
      }
    } catch (error) {
      const isRefused = error instanceof UnsupportedFormatError;
      if (!isRefused && !(error instanceof CheckpointCorruptError)) throw error;
      yield { finding: { kind: isRefused ? "refused" : "damaged", location, reason: error.message } };
    }
  }

  async *#inspectTask(taskId: string, quick: boolean): AsyncGenerator<Wrong | CheckedRecord, void, void> {
    const tables = this.#tables;
    let isIntact = true;
    for await (const { key, found } of tables.checkpoints(taskId, quick)) {
      yield { kind: "checked", taskId, sizeBytes: isCorrupt(found) ? 0 : found.sizeBytes };
      const finding = makeFinding(found, () => tables.locate(taskId, key));
      if (finding === undefined) continue;
      isIntact = false;
      yield { finding, move: () => tables.moveCheckpoint(taskId, key) };
    }
    for await (const item of tables.records(taskId, quick)) {
      if (!isCorrupt(item) && !isRecord(item)) continue;
      yield {
        kind: "checked",
        taskId,
        isRecord: true,
        sizeBytes: isCorrupt(item) ? 0 : toRecordHeader(item).sizeBytes,
      };
      const { sequence } = item;
      const finding = makeRecordFinding(item, () => tables.locateRecord(taskId, item.sequence ?? 0));
      if (finding === undefined) continue;
      isIntact = false;
      yield sequence === undefined ? { finding } : { finding, move: () => tables.moveRecord(taskId, sequence) };
    }
    // The task's row is only checked if everything else is intact. A damaged row of another table can make the task's
    // row differ, and moving the damaged row away rewrites the task's row.
    const row = isIntact ? await tables.taskRow(taskId) : undefined;
    const reason = row && damageInTaskRow(row);
    if (reason === undefined) return;
    const location = `${tables.location}, table ${tables.names.tasks}, task ${JSON.stringify(taskId)}`;
    yield { finding: { kind: "damaged", location, reason, taskId }, move: () => tables.rewriteTaskRow(taskId) };
  }
}
