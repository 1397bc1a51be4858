/** Shows the progress of long work. */
export interface Progress {
  /** Adds this many finished items. */
  advance(count?: number): void;
  /** Sets the number of finished items. */
  reach(done: number): void;
  stop(): void;
}

/**
 * Shows a bar on standard error if that is a terminal, else nothing.
 *
 * @param verb - The name of the work: `copying`.
 * @param countTotal - Returns the number of items. It is called only if there is a bar.
 */
export async function showProgress(verb: string, countTotal: () => number | Promise<number>): Promise<Progress> {
  return process.stderr.isTTY ? startBar(verb, await countTotal()) : { advance() {}, reach() {}, stop() {} };
}

async function startBar(verb: string, total: number): Promise<Progress> {
  const { SingleBar } = await import("cli-progress");
  const bar = new SingleBar({
    format: `${verb} [{bar}] {percentage}% | {value} of {total} | {eta_formatted} left`,
    stream: process.stderr,
    barCompleteChar: "=",
    barIncompleteChar: "-",
    barsize: 24,
    clearOnComplete: true,
    // Leaves the cursor and Ctrl-C as they are.
    hideCursor: null,
    linewrap: null,
    gracefulExit: false,
  });
  bar.start(total, 0);
  return {
    advance: (count = 1) => bar.increment(count),
    reach: (done) => bar.update(done),
    stop: () => bar.stop(),
  };
}
