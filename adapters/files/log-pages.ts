import { setImmediate } from "node:timers/promises";
import type { SealedSummary } from "../../src/contract/checkpoint.js";
import { UnreadableError } from "./file-io.js";
import { isCompanion, type LogIndex, withLog } from "./log-file.js";
import { type LogEntry, LogScan, type PendingBatch, readLines } from "./log-scan.js";
import { attempt, type LoadedTask } from "./record.js";

/** A log and its task at one moment, complete up to `lastSequence`. */
export interface LogMoment {
  readonly index: LogIndex;
  /** The end of the last line, in bytes. */
  readonly end: number;
  /** The batch at the end of the log, if its checkpoint was found. */
  readonly pending: PendingBatch | undefined;
  /** No record or checkpoint up to this sequence is missing. */
  readonly lastSequence: number;
}

/**
 * Returns the moment at which a log was read.
 *
 * @param task - The task, loaded after the log was read.
 * @param newestBefore - The sequence of the newest checkpoint before the log was read.
 */
export function findMoment(index: LogIndex, task: LoadedTask | undefined, newestBefore: number): LogMoment {
  const { offset, pending } = index.scan;
  const companion = pending && findCompanion(pending, task);
  // Checkpoints below the log's last record were stored before that record. Records below `newestBefore` were in the
  // log when it was read.
  const lastSequence = Math.max(
    newestBefore,
    index.lastSequence,
    companion?.sequence ?? 0,
    (companion && pending?.entries.at(-1)?.sequence) ?? 0,
  );
  return { index, end: offset, pending: companion && pending, lastSequence };
}

/** Returns the checkpoint with which a batch was stored; `undefined` if the checkpoint wasn't stored. */
export function findCompanion(pending: PendingBatch, task: LoadedTask | undefined): SealedSummary | undefined {
  const head = attempt(() => task?.find(pending.with.id)?.head());
  return head === undefined || head instanceof UnreadableError || !isCompanion(pending, head) ? undefined : head;
}

/** The log was replaced by another file, or removed, while it was being read. */
export class LogReplacedError extends Error {
  override readonly name = "LogReplacedError";
}

/**
 * Yields a log's lines with sequences between two bounds, exclusive, in pages of limited size.
 *
 * @throws {LogReplacedError} Read the new log from the last yielded line on.
 */
export async function* readPages(
  { index, end, pending }: Omit<LogMoment, "lastSequence">,
  order: "newest" | "oldest" = "oldest",
  afterSequence = Number.NEGATIVE_INFINITY,
  beforeSequence = Number.POSITIVE_INFINITY,
): AsyncGenerator<readonly LogEntry[], void, void> {
  const segments = index.segments.filter(({ offset }) => offset < end);
  const pages = segments.map((from, at) => ({ from, to: segments[at + 1] }));
  for (const { from, to } of order === "newest" ? pages.reverse() : pages) {
    if ((to?.lastSequence ?? Number.POSITIVE_INFINITY) <= afterSequence) continue;
    if (from.lastSequence + 1 >= beforeSequence) continue;
    const entries = withLog(index.path, (file) => {
      if (!index.isOf(file)) return undefined;
      const scan = new LogScan(index.path, from);
      const found: LogEntry[] = [];
      for (const { bytes, offset } of readLines(file, from.offset, to?.offset ?? end)) {
        found.push(...scan.take(bytes, offset));
      }
      const damaged = scan.finish();
      if (to === undefined && pending) found.push(...(scan.pending?.entries ?? []));
      found.push(...damaged);
      return found;
    });
    if (entries === undefined) throw new LogReplacedError();
    const page = entries.filter(({ sequence }) => sequence > afterSequence && sequence < beforeSequence);
    if (page.length > 0) yield order === "newest" ? page.reverse() : page;
    if (to) await setImmediate();
  }
}
