import { setTimeout } from "node:timers/promises";
import type { StorageAdapter } from "../src/contract/adapter.js";
import { isCorrupt } from "../src/contract/corrupt-record.js";
import {
  findRecordDamage,
  isRecord,
  type LogItem,
  type LogRecord,
  type RecordDraft,
  type RecordHeader,
  type RecordQuery,
  type TaskLog,
} from "../src/contract/log.js";
import { holds, same } from "./check.js";
import { sha256Of } from "./drafts.js";
import { collect, pass } from "./steps.js";

/** The parts of a record that a case sets; the rest has defaults. */
interface RecordParts extends Partial<Omit<RecordDraft, "payload">> {
  readonly body?: string | Uint8Array;
}

/** Makes a valid draft of a record, as the manager would. Records with different names have different payloads. */
export function record(name: string, { body = JSON.stringify({ name }), ...parts }: RecordParts = {}): RecordDraft {
  return {
    kind: "step",
    name,
    createdAt: "2026-01-02T03:04:05.678Z",
    ...parts,
    payload: { encoding: typeof body === "string" ? "json" : "bytes", body, sha256: sha256Of(body) },
  };
}

/** Makes an event. Its id is its name, unless `parts` has another id. */
export function event(name: string, parts: RecordParts = {}): RecordDraft {
  return record(name, { kind: "event", id: name, ...parts });
}

/** Makes `count` steps, with the names `<prefix>1`, `<prefix>2`, … */
export function steps(prefix: string, count: number): RecordDraft[] {
  return Array.from({ length: count }, (_, index) => record(`${prefix}${index + 1}`));
}

/** A record with every field, and a body of bytes. */
export const FULL_RECORD: RecordDraft = event("approve, or \u2028 don't", {
  recordKey: '["1",2,"a step",1]',
  id: "an id 😀",
  createdAt: "2026-01-02T03:04:06.007Z",
  body: Uint8Array.from({ length: 300 }, (_, index) => index % 256),
});

export function requireLog({ log }: StorageAdapter): TaskLog {
  if (log) return log;
  throw new Error("The adapter has no log.");
}

/** Reads all items of a task's log, the oldest first. */
export function readLog(adapter: StorageAdapter, query: Partial<RecordQuery> = {}): Promise<LogItem[]> {
  return collect(requireLog(adapter).read({ taskId: "t", order: "oldest", ...query }));
}

/** Names an item in one word: a record's name, a checkpoint's id, or `corrupt`. */
export function nameItem(item: LogItem): string {
  if (isCorrupt(item) || (isRecord(item) && findRecordDamage(item) !== undefined)) return "corrupt";
  return isRecord(item) ? (item.name ?? item.kind) : item.id;
}

/** Lists the log's items, each as a record's name or a checkpoint's id, with its sequence. */
export async function nameLog(adapter: StorageAdapter, query: Partial<RecordQuery> = {}): Promise<string[]> {
  return (await readLog(adapter, query)).map((item) => `${item.sequence} ${nameItem(item)}`);
}

/** Throws unless the item is the whole appended record, with a seal that holds. */
export function sameRecord(item: LogItem | undefined, draft: RecordDraft, sequence: number, taskId = "t"): void {
  const what = `log.read MUST yield the record ${sequence} that was appended`;
  holds(item !== undefined && !isCorrupt(item) && isRecord(item), what);
  const { seal: _seal, ...fields } = item;
  same(fields, { ...draft, taskId, sequence }, `${what}, with every field unchanged and none added`);
  same(findRecordDamage(item), undefined, `${what}, with a seal that holds`);
}

/**
 * Reads the log again and again, each time from where the last read ended, until `writing` ends. Throws if a sequence
 * is skipped.
 */
export async function followWhile(adapter: StorageAdapter, writing: Promise<unknown>): Promise<void> {
  let isWriting = true;
  let last = 0;
  const follow = async () => {
    do {
      for (const { sequence } of await readLog(adapter, { afterSequence: last })) {
        same(sequence, last + 1, "log.read MUST NOT skip a record or checkpoint that is below one that it yields");
        last += 1;
      }
      await pass(1);
    } while (isWriting);
  };
  const written = writing.finally(() => {
    isWriting = false;
  });
  await Promise.all([written, follow()]);
}

/** How late a notification of `watch`, which usually takes 20 ms, may be on a busy machine. */
const LATE_MS = 5_000;

/**
 * Whether a watcher of the adapter's log is notified of the change. Returns true if the watch can't see such changes.
 *
 * @param taskId - The task to watch. Default: any task that may be due.
 * @param isForeign - Whether another instance makes the change.
 */
export async function isToldOf(
  adapter: StorageAdapter,
  change: () => Promise<unknown>,
  { taskId, isForeign = false }: { readonly taskId?: string; readonly isForeign?: boolean } = {},
): Promise<boolean> {
  let told = (): void => undefined;
  const nextCall = () =>
    new Promise<true>((resolve) => {
      told = () => resolve(true);
    });
  const first = nextCall();
  const end = requireLog(adapter).watch?.(() => told(), taskId);
  try {
    // The watch may not see changes by other instances here, for example through a pooler, and then promises nothing.
    const canWatch = !isForeign || (await inTime(first));
    const next = nextCall();
    await change();
    return !canWatch || (await inTime(next));
  } finally {
    end?.();
  }
}

async function inTime(called: Promise<true>): Promise<boolean> {
  const timer = new AbortController();
  // The timer is aborted once the call has come, and its error is ignored.
  const late = setTimeout(LATE_MS, false, { signal: timer.signal }).catch(() => false);
  const isInTime = await Promise.race([called, late]);
  timer.abort();
  return isInTime;
}

/** Whether an item is a record with its body. */
export function isWhole(item: LogItem): item is LogRecord {
  return !isCorrupt(item) && isRecord(item) && !("sizeBytes" in item);
}

/** Returns the header of a draft, as `log.read` yields it. */
export function headerOfDraft(draft: RecordDraft, sequence: number, sizeBytes?: number): Omit<RecordHeader, "seal"> {
  const { body, encoding, sha256 } = draft.payload;
  return {
    ...draft,
    taskId: "t",
    sequence,
    payload: { encoding, sha256 },
    sizeBytes: sizeBytes ?? Buffer.byteLength(body),
  };
}
