import { type Recorded, recorded } from "./crash-process.js";
import { CHANGING, namesOf, OPENING, storeIn } from "./crash-site.js";
import type { Call, StoreKind } from "./operations.js";
import type { SystemCall } from "./system-calls.js";

/** A moment to be killed in: just before a system call takes effect. */
export interface Point {
  /** As {@link namesOf} names it. */
  readonly name: string;
  readonly call: SystemCall;
}

/** A process that was killed, and the folder that its store is in. */
export interface Kill {
  readonly folder: string;
  readonly run: Recorded;
  /** It was killed at the point, and not at another call. */
  readonly met: boolean;
}

/** How often a kill is aimed at one point. */
const AIMS = 12;

/**
 * Starts a process and has it killed at that point, in a new folder each time, until it was met. A kill may meet another
 * call where a thread has made one more or less than in the rehearsal, as it does to wake up another: that is a kill too.
 */
export async function* aimedKills(
  kind: StoreKind,
  newFolder: () => Promise<string>,
  calls: readonly Call[],
  { name, call }: Point,
): AsyncGenerator<Kill, void, void> {
  let { ordinal } = call;
  for (let aim = 1; aim <= AIMS; aim++) {
    const folder = await newFolder();
    const run = await recorded(kind, storeIn(folder), calls, {
      calls: [...CHANGING, ...OPENING, call.name],
      data: true,
      thread: call.thread,
      injection: { call: { ...call, ordinal }, fault: "signal=KILL" },
    });
    const found = [...namesOf(run.ofStore, folder)].find(([, other]) => other === name)?.[0];
    const met = run.signal === "SIGKILL" && found?.ordinal === ordinal && found.ended === undefined;
    yield { folder, run, met };
    if (met) return;
    // Where it was this time, or else close by.
    ordinal = found?.ordinal ?? call.ordinal + (aim % 2 === 0 ? aim : -aim) / 2;
    ordinal = Math.max(1, Math.round(ordinal));
  }
}
