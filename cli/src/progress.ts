import { SingleBar } from "cli-progress";

/** How far a long piece of work has come. */
export interface Progress {
  /** So many more are done. */
  advance(count?: number): void;
  /** So many are done in all. */
  reach(done: number): void;
  stop(): void;
}

/**
 * A bar on standard error where that is a terminal; elsewhere nothing.
 *
 * @param verb - What is being done: `copying`.
 * @param countTotal - How much there is to do; asked for only where a bar is shown.
 */
export async function showProgress(verb: string, countTotal: () => number | Promise<number>): Promise<Progress> {
  if (!process.stderr.isTTY) return { advance() {}, reach() {}, stop() {} };
  const total = await countTotal();
  const bar = new SingleBar({
    format: `${verb} [{bar}] {percentage}% | {value} of {total} | {eta_formatted} left`,
    stream: process.stderr,
    barCompleteChar: "=",
    barIncompleteChar: "-",
    barsize: 24,
    clearOnComplete: true,
    // The cursor stays as it is, and so does what Ctrl-C does.
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
