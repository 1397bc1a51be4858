import { sealNumbering } from "./sealed-record.js";
import { TimeSlices } from "./time-slices.js";

/** How far from what is known of the numbering is searched. */
const SEARCHED = 100_000;
/** Of the seal's 64 digits. Two numbers' seals have some four in common. */
const SAME_SEAL_DIGITS = 56;
/** Far more checkpoints than a task is likely to have had removed since its newest one. Gaps are allowed. */
const GAP = 1_000_000;
/** No program counts so far, and there are nine thousand times as many sequences above it. */
const BEYOND_COUNTING = 10 ** 12;

/**
 * Whether counting may have come to the sequence that a damaged checkpoint tells, in its file's name or a line. One that is far
 * higher is damage too, or was planted: kept as given, it would leave the task none to give.
 *
 * @param highest - The highest sequence of the task that is known for certain: of what is intact, and of its numbering. It
 *   says little: by a retention policy, a task may have a gap of any width below its last checkpoint.
 */
export function isCounted(sequence: number, highest: number): boolean {
  return sequence < BEYOND_COUNTING || sequence <= highest + GAP;
}

/**
 * The last sequence that a damaged numbering tells, or one that is above it for all that can be known: the number if it is
 * nearly what was sealed, else the number that the seal is of. Where neither is left, the numbering leaves a wide gap.
 *
 * @param source - The damaged text.
 * @param atLeast - The highest sequence that is known from elsewhere.
 */
export async function recoverLastSequence(source: string, taskId: string, atLeast: number): Promise<number> {
  const [, digits] = /"lastSequence":(\d{1,15})/.exec(source) ?? [];
  const [, seal] = /"seal":"([^"]{64})"/.exec(source) ?? [];
  if (seal !== undefined) {
    const isSealed = (lastSequence: number) => commonDigits(sealOf(taskId, lastSequence), seal) >= SAME_SEAL_DIGITS;
    if (digits !== undefined && isSealed(Number(digits))) return Math.max(Number(digits), atLeast);
    const slices = new TimeSlices();
    for (let number = Math.max(1, atLeast - SEARCHED); number <= atLeast + SEARCHED; number++) {
      if (isSealed(number)) return Math.max(number, atLeast);
      if (slices.due) await slices.pause();
    }
  }
  return Math.min(atLeast + GAP, Number.MAX_SAFE_INTEGER);
}

function sealOf(taskId: string, lastSequence: number): string {
  return String(sealNumbering({ taskId, lastSequence })["seal"]);
}

function commonDigits(a: string, b: string): number {
  let count = 0;
  for (let at = 0; at < a.length; at++) if (a[at] === b[at]) count += 1;
  return count;
}
