import { inspect } from "node:util";
import type { StorageAdapter } from "../../src/contract/adapter.js";
import { checkFunction, checkKeys, checkText, listKeys } from "../../src/contract/arguments.js";
import type { CheckpointDraft, CheckpointSummary, Payload, StoredCheckpoint } from "../../src/contract/checkpoint.js";
import type { AppendCondition } from "../../src/contract/conditions.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { CheckpointError } from "../../src/contract/errors.js";
import type { LeaseStore } from "../../src/contract/leases.js";
import type { LogRecord, PayloadChange, RecordDraft, RecordHeader, TaskLog } from "../../src/contract/log.js";
import { readRunNote } from "../../src/contract/run-note.js";
import type { TaskQueue } from "../../src/contract/task-queue.js";
import { readDropped } from "../../src/runs/recorded-turn.js";
import { withMembers } from "../with-members.js";
import type { HistoryAction, HistoryCall, HistoryItem, SeenItem } from "./calls.js";

export interface RecordHistoryOptions {
  /**
   * A name that no other process of the history has; after a restart, use a new one. Example: `worker-${process.pid}`.
   */
  readonly process: string;
  /**
   * Called with a line of JSON at the start of each call, and with another line at its end. Write each line at once, so
   * that it survives a kill: `appendFileSync(file, line)`. `parseHistory` reads the lines of all processes as a
   * history.
   */
  readonly write: (line: string) => void;
  /**
   * Returns the milliseconds of the clock that all processes of the history share and by which leases expire. Default:
   * this machine's monotonic clock, which restarts at a reboot. With a `SimulatedRuntime`: `() => runtime.now()`.
   */
  readonly nowMs?: (() => number) | undefined;
}

const OPTION_KEYS = listKeys<RecordHistoryOptions>({ process: true, write: true, nowMs: true });

/** A line of a history: the start or the end of a call. */
interface HistoryLine extends Omit<HistoryCall, "endMs" | "process"> {
  readonly process: string;
  /** The call's number within its process, from 1. */
  readonly number: number;
  readonly endMs?: number;
}

/**
 * Returns a wrapper of `storage` that records its calls for `checkHistory`.
 *
 * @throws {TypeError} An option is missing, of the wrong type or unknown.
 */
export function recordHistory(storage: StorageAdapter, options: RecordHistoryOptions): StorageAdapter {
  checkKeys("RecordHistoryOptions", options, OPTION_KEYS, '{ process: "worker-1", write }');
  const { process: name, write, nowMs = sharedNowMs } = options;
  checkText("RecordHistoryOptions.process", name, 1);
  checkFunction("RecordHistoryOptions.write", write);
  checkFunction("RecordHistoryOptions.nowMs", nowMs);
  if (write === undefined)
    throw new TypeError("RecordHistoryOptions.write is missing. Pass a function that stores a line.");
  let count = 0;
  const begin = (taskId: string, action: HistoryAction) => {
    count += 1;
    const line: HistoryLine = { process: name, number: count, taskId, beginMs: nowMs(), action };
    write(`${JSON.stringify(line)}\n`);
    return (end: Pick<HistoryLine, "action" | "error">) =>
      write(`${JSON.stringify({ ...line, endMs: nowMs(), ...end })}\n`);
  };
  const record = async <Answer>(
    taskId: string,
    action: HistoryAction,
    call: () => Promise<Answer>,
    answered: (answer: Answer) => HistoryAction,
  ): Promise<Answer> => {
    const end = begin(taskId, action);
    try {
      const answer = await call();
      end({ action: answered(answer) });
      return answer;
    } catch (error) {
      end({ action, error: error instanceof CheckpointError ? error.code : "OTHER" });
      throw error;
    }
  };
  async function* recordRead<Item extends Parameters<typeof toSeen>[0]>(
    taskId: string,
    query: Extract<HistoryAction, { is: "read" }>["query"],
    read: () => AsyncIterable<Item | CorruptRecord>,
  ): AsyncGenerator<Item | CorruptRecord, void, void> {
    const end = begin(taskId, { is: "read", query });
    const items: SeenItem[] = [];
    let isWhole = false;
    try {
      for await (const item of read()) {
        const seen = isCorrupt(item) ? undefined : toSeen(item);
        if (seen) items.push(seen);
        yield item;
      }
      isWhole = true;
    } finally {
      end({ action: { is: "read", query, items, isWhole } });
    }
  }
  const { leases, log, queue, removePrefix, replacePayload } = storage;
  return withMembers(storage, {
    append(draft, condition, options = {}) {
      const items = [...(options.records ?? []).map(toItem), toItem({ ...draft, kind: "checkpoint" })];
      const { replaces, sequence: exact } = options;
      const action = {
        is: "append",
        items,
        ...conditionOf(condition),
        ...(replaces !== undefined && { replaces }),
        ...(exact !== undefined && { isExact: true }),
      } as const;
      return record(
        draft.taskId,
        action,
        () => storage.append(draft, condition, options),
        (sequence) => ({ ...action, sequence }),
      );
    },
    setStatus(taskId, id, change, condition, options = {}) {
      const items = (options.records ?? []).map(toItem);
      const action = { is: "setStatus", id, items, ...conditionOf(condition) } as const;
      const call = () => storage.setStatus(taskId, id, change, condition, options);
      return record(taskId, action, call, (isChanged) => ({ ...action, isChanged }));
    },
    get(taskId, id) {
      const action = { is: "read", id, query: { order: "newest", kinds: ["checkpoint"] } } as const;
      return record(
        taskId,
        action,
        () => storage.get(taskId, id),
        (found) => {
          const seen = found && !isCorrupt(found) ? toSeen(found) : undefined;
          return { ...action, items: seen ? [seen] : [], isWhole: true };
        },
      );
    },
    read: ({ taskId, ...query }) =>
      recordRead(taskId, { ...query, kinds: ["checkpoint"] }, () => storage.read({ taskId, ...query })),
    list: ({ taskId, ...query }) =>
      recordRead(taskId, { ...query, kinds: ["checkpoint"] }, () => storage.list({ taskId, ...query })),
    remove: (taskId, what, condition) =>
      recordRemoval(taskId, what, condition, () => storage.remove(taskId, what, condition)),
    ...(removePrefix && {
      removePrefix(prefix, expected) {
        const action = { is: "remove", what: "all", isPrefix: true } as const;
        const call = () => removePrefix.call(storage, prefix, expected);
        return record(prefix, action, call, (count) => ({ ...action, count }));
      },
    }),
    ...(replacePayload && {
      replacePayload: (taskId, id, payload, expectedSha256) =>
        recordReplacement(taskId, [{ of: id, sha256: payload.sha256, expectedSha256 }], () =>
          replacePayload.call(storage, taskId, id, payload, expectedSha256),
        ),
    }),
    ...(log && { log: recordLog(log) }),
    ...(leases && { leases: recordLeases(leases) }),
    ...(queue && { queue: recordQueue(queue) }),
  });

  function recordRemoval(
    taskId: string,
    what: Extract<HistoryAction, { is: "remove" }>["what"],
    condition: AppendCondition | undefined,
    remove: () => Promise<number>,
  ): Promise<number> {
    const action = { is: "remove", what, ...conditionOf(condition) } as const;
    return record(taskId, action, remove, (count) => ({ ...action, count }));
  }

  function recordReplacement<Answer>(
    taskId: string,
    changes: Extract<HistoryAction, { is: "replace" }>["changes"],
    replace: () => Promise<Answer>,
  ): Promise<Answer> {
    const action = { is: "replace", changes } as const;
    return record(taskId, action, replace, () => action);
  }

  function recordLog(log: TaskLog): TaskLog {
    const { replacePayloads } = log;
    return withMembers(log, {
      append(taskId, records, condition, options = {}) {
        const action = {
          is: "append",
          items: records.map(toItem),
          ...conditionOf(condition),
          ...(options.lazy && { isLazy: true }),
          ...(options.firstSequence !== undefined && { isExact: true }),
        } as const;
        const call = () => log.append(taskId, records, condition, options);
        return record(taskId, action, call, (sequence) => ({ ...action, sequence }));
      },
      read: ({ taskId, headersOnly, durableOnly, ...query }) =>
        recordRead(taskId, query, () => log.read({ taskId, headersOnly, durableOnly, ...query })),
      remove: (taskId, what, condition) =>
        recordRemoval(taskId, what, condition, () => log.remove(taskId, what, condition)),
      ...(replacePayloads && {
        replacePayloads: (taskId, changes) =>
          recordReplacement(taskId, changes.map(toReplaced), () => replacePayloads.call(log, taskId, changes)),
      }),
    });
  }

  function recordLeases(leases: LeaseStore): LeaseStore {
    return withMembers(leases, {
      claim(taskId, holder, ttlMs, options) {
        const action = { is: "claim", holder, ttlMs, ...(options?.force && { isForced: true }) } as const;
        const call = () => leases.claim(taskId, holder, ttlMs, options);
        return record(taskId, action, call, ({ isGranted, token }) => ({ ...action, ...(isGranted && { token }) }));
      },
      renew(taskId, token, ttlMs) {
        const action = { is: "renew", token, ttlMs } as const;
        return record(
          taskId,
          action,
          () => leases.renew(taskId, token, ttlMs),
          (isRenewed) => ({ ...action, isRenewed }),
        );
      },
      release(taskId, token) {
        const action = { is: "release", token } as const;
        return record(
          taskId,
          action,
          () => leases.release(taskId, token),
          () => action,
        );
      },
    });
  }

  function recordQueue(queue: TaskQueue): TaskQueue {
    return withMembers(queue, {
      async claimNext(query, holder, ttlMs, limit) {
        const beginMs = nowMs();
        const claimed = await queue.claimNext(query, holder, ttlMs, limit);
        for (const { taskId, token } of claimed) {
          count += 1;
          const action = { is: "claim", holder, ttlMs, token } as const;
          const line: HistoryLine = { process: name, number: count, taskId, beginMs, endMs: nowMs(), action };
          write(`${JSON.stringify(line)}\n`);
        }
        return claimed;
      },
    });
  }
}

/**
 * Parses the calls of a history.
 *
 * @param texts - The text that each process wrote. If a killed process left half a line at the end, it is skipped.
 * @throws {SyntaxError} Another line isn't JSON. @throws {TypeError} Two processes have the same name.
 */
export function parseHistory(texts: string | Iterable<string>): HistoryCall[] {
  const calls = new Map<string, HistoryCall>();
  for (const text of typeof texts === "string" ? [texts] : texts) {
    if (typeof text !== "string" || !/^(\{|$)/.test(text))
      throw new TypeError(
        `parseHistory needs the texts that \`recordHistory\` has written, one of each process, not ${inspect(text).slice(0, 60)}.`,
      );
    const lines = text.split("\n");
    const last = parseEnd(lines.pop() ?? "");
    const parsed = lines.filter((line) => line !== "").map((line): HistoryLine => JSON.parse(line));
    for (const { number, ...call } of [...parsed, ...last]) {
      const key = JSON.stringify([call.process, number]);
      const begun = calls.get(key);
      // The line of a call's end replaces the line of its start.
      if (begun !== undefined && (begun.endMs !== undefined || begun.beginMs !== call.beginMs)) {
        throw new TypeError(
          `Two processes of the history are named ${JSON.stringify(call.process)}. Pass another name to \`recordHistory\` in each ` +
            "process, also after a restart, such as one with its pid.",
        );
      }
      calls.set(key, call);
    }
  }
  return [...calls.values()];
}

function parseEnd(line: string): readonly HistoryLine[] {
  try {
    return [JSON.parse(line)];
  } catch {
    // The process was killed while it wrote this line.
    return [];
  }
}

/** Reads the monotonic clock, which all processes of this machine share. */
function sharedNowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

function conditionOf(condition: AppendCondition | undefined) {
  return condition && { condition };
}

function toReplaced({ sequence, payload, expectedSha256 }: PayloadChange) {
  return { of: sequence, sha256: payload.sha256, expectedSha256 };
}

function toItem(draft: RecordDraft | (CheckpointDraft & { readonly kind: "checkpoint" })): HistoryItem {
  if (draft.kind === "checkpoint") return toCheckpoint(draft);
  return { ...toRecord(draft), ...(draft.kind === "run" && { dropped: droppedBy(draft.payload.body) }) };
}

function toRecord({ kind, id, name, recordKey, createdAt, payload }: RecordDraft | RecordHeader): HistoryItem {
  return {
    kind,
    ...(id !== undefined && { id }),
    ...(name !== undefined && { name }),
    ...(recordKey !== undefined && { recordKey }),
    createdAt,
    sha256: payload.sha256,
  };
}

function toCheckpoint(
  summary: Omit<CheckpointSummary, "sequence"> & { readonly payload?: Pick<Payload, "sha256"> },
): HistoryItem {
  const { id, createdAt, payload } = summary;
  const { generation, turn, received } = readRunNote(summary) ?? {};
  return {
    kind: "checkpoint",
    id,
    createdAt,
    ...(payload && { sha256: payload.sha256 }),
    ...(generation !== undefined && turn !== undefined && { run: { generation, turn, ...(received && { received }) } }),
  };
}

function toSeen(item: LogRecord | RecordHeader | StoredCheckpoint | CheckpointSummary): SeenItem {
  return { ...("kind" in item ? toRecord(item) : toCheckpoint(item)), sequence: item.sequence };
}

/** Returns the results that a `run` record drops. */
function droppedBy(body: string | Uint8Array): NonNullable<HistoryItem["dropped"]> {
  if (typeof body !== "string") return "unknown";
  const value: unknown = JSON.parse(body);
  return readDropped(value);
}
