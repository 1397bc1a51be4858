// @ts-check
// The part that the workers of both sides share: jobs of ten trivial steps. A worker reports to the benchmark when it
// is ready and how long each step took.

export const STEPS = 10;
/** The number of jobs that a worker runs at once. */
export const CONCURRENCY = 16;
export const QUEUE = "jobs";

/** @type {number[]} */
const stepMs = [];

/**
 * Runs one job. @param {(name: string, body: () => Promise<number>) => Promise<number>} step
 */
export async function job(step) {
  if (stepMs.length === 0) process.send?.("started");
  let sum = 0;
  for (let number = 1; number <= STEPS; number++) {
    const start = performance.now();
    sum += await step(`step ${number}`, async () => number);
    stepMs.push(performance.now() - start);
  }
  return sum;
}

/** Reports to the benchmark that a job has ended. */
export function ended() {
  process.send?.("ended");
}

/**
 * Begins and ends a worker when the benchmark asks. @param {{ begin: () => Promise<unknown>, end: () =>
 * Promise<unknown> }} worker
 */
export function serve({ begin, end }) {
  let began = process.cpuUsage();
  process.on("message", async (said) => {
    if (said === "begin") {
      began = process.cpuUsage();
      await begin();
      process.send?.("begun");
    }
    if (said === "end") {
      const { user, system } = process.cpuUsage(began);
      await end();
      process.send?.({ stepMs, cpuMs: (user + system) / 1000 }, () => process.exit());
    }
  });
  process.send?.("ready");
}
