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
  return process.stderr.isTTY ? startBar(verb, await countTotal()) : { advance() {}, reach() {}, stop() {} };
}

/**
 * The same for work that must be the first to open the storage: counting, which opens it too, begins once something is
 * done.
 *
 * @param countTotal - Where it fails there is no bar: the work meets what is wrong, and tells it.
 */
export function showProgressOnceBegun(verb: string, countTotal: () => Promise<number>): Omit<Progress, "advance"> {
  let bar: Progress | undefined;
  let isCounting = false;
  let isStopped = !process.stderr.isTTY;
  let reached = 0;
  const show = (total: number): void => {
    if (isStopped) return;
    bar = startBar(verb, total);
    bar.reach(reached);
  };
  return {
    reach(done) {
      reached = done;
      bar?.reach(done);
      if (isCounting || isStopped || done === 0) return;
      isCounting = true;
      countTotal().then(show, () => undefined);
    },
    stop() {
      isStopped = true;
      bar?.stop();
    },
  };
}

function startBar(verb: string, total: number): Progress {
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
