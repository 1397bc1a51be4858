// The storage of a life. At a write, it imitates a kill or a stop of the life's process, while all lives share a
// process.
import { type StorageAdapter, StorageError } from "waymark";
import type { CheckpointDraft } from "waymark/adapter";
import { readRunNote } from "../../src/contract/run-note.js";
import { parseRunKey } from "../../src/contract/run-record.js";
import { deferred } from "../support/deferred.js";
import { withMembers } from "../support/with-members.js";

/**
 * A fault at the write with this number. `killed`: neither this write nor any later call returns. `stored`: the same,
 * but the write is stored. `frozen`: nothing returns until {@link Disturbed.thaw}. `failed`: the write fails. `unsure`:
 * the write fails but is stored, and may be tried again. `unread`: all later reads fail. The caller implements the
 * other faults. `robbed`: when the run first waits without a time limit, another holder takes its lease. `contested`:
 * another holder asks for the lease.
 */
export interface Fault {
  readonly after: number;
  readonly how:
    | "killed"
    | "stored"
    | "frozen"
    | "failed"
    | "unsure"
    | "unread"
    | "paused"
    | "cancelled"
    | "robbed"
    | "contested";
}

/** The ways in which a life with this fault may end, in addition to those of a life without a fault. */
export const ENDS: Readonly<Record<Fault["how"], readonly string[]>> = {
  killed: [],
  stored: [],
  frozen: [],
  paused: ["RUN_PAUSED"],
  // If the write of a child run fails, the parent run is paused.
  failed: ["STORAGE_FAILED", "RUN_PAUSED", "stopped"],
  unsure: [],
  unread: ["STORAGE_FAILED", "RUN_PAUSED", "stopped"],
  // Another write may fail between the canceller's claim and the task's new status.
  cancelled: ["RUN_CANCELLED", "RUN_PAUSED", "LEASE_LOST", "stopped"],
  robbed: ["LEASE_LOST", "stopped"],
  contested: [],
};

export interface Disturbed {
  readonly storage: StorageAdapter;
  /** Resolves when the life is killed or frozen. */
  readonly reached: Promise<void>;
  isDead(): boolean;
  thaw(): void;
  /** The tokens of the life's leases. */
  readonly claimed: readonly (readonly [taskId: string, token: number])[];
  /** Returns the generation of the last record or checkpoint that a task's run has stored. */
  generationOf(taskId: string): string;
}

const NEVER = new Promise<never>(() => undefined);

/**
 * @param before - Called before each write with its number, or with "pause" if the write pauses a run.
 * @param isWatched - Whether the storage reports its changes.
 */
export function disturbed(
  inner: StorageAdapter,
  fault: Fault | undefined,
  before: (write: number | "pause") => Promise<void>,
  isWatched: boolean,
): Disturbed {
  const { leases, log, queue } = inner;
  if (leases === undefined || log === undefined) throw new Error("The storage has no leases or no log.");
  const reached = deferred();
  const thawed = deferred();
  const claimed: (readonly [taskId: string, token: number])[] = [];
  const generations = new Map<string, string>();
  let state: "alive" | "frozen" | "dead" = "alive";
  let writes = 0;
  const isDead = () => state === "dead";

  const pass = async <Answer>(call: () => Promise<Answer>): Promise<Answer> => {
    if (state === "frozen") await thawed.promise;
    if (isDead()) return NEVER;
    // A killed process gets no answers, not even to earlier calls.
    const settled = await Promise.allSettled([call()]);
    if (state === "frozen") await thawed.promise;
    if (isDead()) return NEVER;
    const [end] = settled;
    if (end.status === "rejected") throw end.reason;
    return end.value;
  };
  const write = async <Answer>(isEvent: boolean, call: () => Promise<Answer>): Promise<Answer> => {
    if (isDead()) return NEVER;
    if (state === "frozen") await thawed.promise;
    // A life isn't frozen while it sends an event: a late event isn't refused, because it needs no lease.
    const isLeftOut = (fault?.how === "frozen" || fault?.how === "contested") && isEvent;
    writes += Number(!isLeftOut);
    const isHere = !isLeftOut && writes === fault?.after;
    if (!isLeftOut) await before(writes);
    if (isHere && (fault.how === "killed" || fault.how === "stored")) {
      if (fault.how === "stored") await Promise.allSettled([call()]);
      state = "dead";
      reached.resolve();
    }
    if (isHere && fault.how === "frozen") {
      state = "frozen";
      reached.resolve();
    }
    if (isHere && fault.how === "failed") throw new StorageError("The storage fails.");
    if (isHere && fault.how === "unsure") {
      await call();
      throw new StorageError("The answer was lost.", { retryable: true });
    }
    return pass(call);
  };
  const assertReadable = async () => {
    if (fault?.how === "unread" && writes >= fault.after) throw new StorageError("The storage can't be read.");
  };
  async function* passAll<Item>(read: () => AsyncIterable<Item>): AsyncGenerator<Item, void, void> {
    await pass(assertReadable);
    for await (const item of read()) {
      await pass(assertReadable);
      yield item;
    }
  }
  const noteGeneration = (draft: CheckpointDraft) => {
    const note = readRunNote(draft);
    if (note !== undefined) generations.set(draft.taskId, note.generation);
  };
  const storage = withMembers(inner, {
    append: (draft, condition, options) =>
      write(false, async () => {
        noteGeneration(draft);
        if (draft.status === "paused") await before("pause");
        return inner.append(draft, condition, options);
      }),
    setStatus: (...args) => write(false, () => inner.setStatus(...args)),
    get: (...args) => pass(() => assertReadable().then(() => inner.get(...args))),
    read: (query) => passAll(() => inner.read(query)),
    list: (query) => passAll(() => inner.list(query)),
    tasks: (query) => passAll(() => inner.tasks(query)),
    log: withMembers(log, {
      append: (taskId, records, condition, options) =>
        write(records[0]?.kind === "event", () => {
          for (const record of records) {
            const key = parseRunKey(record);
            if (key !== undefined) generations.set(taskId, key.generation);
          }
          return log.append(taskId, records, condition, options);
        }),
      read: (query) => passAll(() => log.read(query)),
      ...(!isWatched && { watch: undefined }),
    }),
    leases: withMembers(leases, {
      claim: (taskId, ...rest) =>
        pass(async () => {
          const claim = await leases.claim(taskId, ...rest);
          if (claim.isGranted) claimed.push([taskId, claim.token]);
          return claim;
        }),
      renew: (...args) => pass(() => leases.renew(...args)),
      release: (...args) => pass(() => leases.release(...args)),
    }),
    queue:
      queue &&
      withMembers(queue, {
        claimNext: (...args) =>
          pass(async () => {
            const tasks = await queue.claimNext(...args);
            for (const { taskId, token } of tasks) claimed.push([taskId, token]);
            return tasks;
          }),
      }),
  });
  return {
    storage,
    reached: reached.promise,
    isDead,
    thaw() {
      if (state === "frozen") state = "alive";
      thawed.resolve();
    },
    claimed,
    generationOf: (taskId) => generations.get(taskId) ?? "",
  };
}
