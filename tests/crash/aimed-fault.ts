import { type Injection, type Recorded, recorded } from "./crash-process.js";
import type { Call, StoreKind } from "./operations.js";
import { CHANGING, namesOf, OPENING, storeIn } from "./store-calls.js";
import type { SystemCall } from "./system-calls.js";

/** A moment for a fault: just before a system call takes effect. */
export interface Point {
  /** The name from {@link namesOf}. */
  readonly name: string;
  readonly call: SystemCall;
}

/** A process with a fault, and the folder of its store. */
export interface Attempt {
  readonly folder: string;
  readonly run: Recorded;
  /** Whether the fault met exactly this point. */
  readonly met: boolean;
}

/** How many times to aim at one point. Once is usually enough, but a thread that others wake up is hard to meet. */
const AIMS = 60;
/** An upper estimate of how much a call's number differs between two runs. */
const SPREAD = 5;

/**
 * Starts a process in a new folder and kills it, or makes a call fail, at the point, again and again until the fault
 * meets the point. It may meet another call if a thread has made a call more or less than in the rehearsal, for example
 * to wake up another thread.
 */
export async function* aimedFaults(
  kind: StoreKind,
  newFolder: () => Promise<string>,
  calls: readonly Call[],
  { name, call }: Point,
  fault: Injection["fault"],
): AsyncGenerator<Attempt, void, void> {
  let { ordinal } = call;
  for (let aim = 1; aim <= AIMS; aim++) {
    const folder = await newFolder();
    const run = await recorded(kind, storeIn(folder), calls, {
      calls: [...CHANGING, ...OPENING, call.name],
      data: true,
      thread: call.thread,
      injection: { call: { ...call, ordinal }, fault },
    });
    const found = [...namesOf(run.ofStore, folder)].find(([, other]) => other === name)?.[0];
    const happened =
      fault === "signal=KILL" ? run.signal === "SIGKILL" && found?.ended === undefined : found?.error !== undefined;
    const met = happened && found?.ordinal === ordinal && found.thread === call.thread;
    yield { folder, run, met };
    if (met) return;
    // The number of the point's call in this process. If the fault came before the point, its number is higher.
    ordinal = found?.ordinal ?? ordinal + 1 + (aim % SPREAD);
  }
}
