import { setMaxListeners } from "node:events";
import { HeldProcess, ProcessStartError } from "../processes/held-process.js";
import { endOrphanedGroup } from "../processes/process-group.js";
import { type CommandResult, runCommand } from "../processes/run-command.js";
import type { OneshotListener, WorkstreamFailure } from "./events.js";
import type { FeatureJournal, WorkstreamProcess } from "./feature-journal.js";
import { OutputLines, OutputTail } from "./output-lines.js";
import type { CheckedWorkstream } from "./plan.js";

/** How a run works. */
export interface RunSettings {
  readonly jobs: number;
  /** Where the commands run. */
  readonly cwd: string;
  readonly killGraceMs: number;
  readonly tailLines: number;
}

/** One run of a feature: starts what may start, and writes each step down before it takes the next. */
export class FeatureRun {
  readonly #workstreams: readonly CheckedWorkstream[];
  readonly #journal: FeatureJournal;
  readonly #settings: RunSettings;
  readonly #tell: OneshotListener;
  /** Ends what runs: the caller's signal, or our own once the run can't go on. */
  readonly #ending: AbortSignal;
  readonly #breakdown = new AbortController();
  readonly #begun = new Set<string>();
  readonly #failures: WorkstreamFailure[] = [];

  constructor(
    workstreams: readonly CheckedWorkstream[],
    journal: FeatureJournal,
    { signal, tell, ...settings }: RunSettings & { readonly signal: AbortSignal; readonly tell: OneshotListener },
  ) {
    this.#workstreams = workstreams;
    this.#journal = journal;
    this.#settings = settings;
    this.#tell = tell;
    this.#ending = AbortSignal.any([signal, this.#breakdown.signal]);
    // Each workstream that runs listens to it. Ten of them are no leak, which Node would warn of.
    setMaxListeners(0, this.#ending);
  }

  /** In the order in which they failed. */
  get failures(): readonly WorkstreamFailure[] {
    return this.#failures;
  }

  /**
   * Ends what a killed run has left running.
   *
   * @throws {ProcessStuckError} It can't be ended.
   */
  async endOrphans(orphans: readonly WorkstreamProcess[]): Promise<void> {
    const ended = orphans.map(async (orphan) => {
      const { workstream, pid } = orphan;
      const hasRun = await endOrphanedGroup(orphan, this.#settings.killGraceMs);
      this.#journal.forgetOrphan(workstream);
      if (hasRun) this.#tell({ type: "orphanEnded", workstream, pid });
    });
    await throwFirst(ended);
  }

  /**
   * Runs all that is not completed, in the plan's order, side by side as far as `jobs` allows. Once one has failed, no
   * other is started, and those that run come to their end. Resolves when nothing runs any more: when all is completed,
   * nothing else can be done, or the signal has aborted.
   *
   * @throws {CheckpointConflictError | StorageError} A checkpoint could not be saved; what ran was ended.
   * @throws {ProcessStuckError} A process group can't be ended.
   */
  async work(): Promise<void> {
    const running = new Set<Promise<void>>();
    for (;;) {
      for (let next = this.#next(running.size); next !== undefined; next = this.#next(running.size)) {
        this.#begun.add(next.id);
        const ended: Promise<void> = this.#run(next)
          .catch((error: unknown) => this.#breakdown.abort(error))
          .finally(() => running.delete(ended));
        running.add(ended);
      }
      if (running.size === 0) break;
      await Promise.race(running);
    }
    if (this.#breakdown.signal.aborted) throw this.#breakdown.signal.reason;
  }

  /** The first in the plan that may start now. */
  #next(running: number): CheckedWorkstream | undefined {
    if (running >= this.#settings.jobs || this.#ending.aborted || this.#failures.length > 0) return undefined;
    return this.#workstreams.find(
      ({ id, dependsOn }) =>
        !this.#begun.has(id) &&
        !this.#journal.hasCompleted(id) &&
        dependsOn.every((other) => this.#journal.hasCompleted(other)),
    );
  }

  async #run(workstream: CheckedWorkstream): Promise<void> {
    const { id } = workstream;
    const startedMs = performance.now();
    const held = await this.#hold(workstream, startedMs);
    if (held === undefined) return;
    // On disk before it is let go: there is no moment in which it works unknown to the next run.
    this.#journal.markStarted(id, held.identity);
    try {
      await this.#journal.save();
    } catch (error) {
      await held.abandon();
      throw error;
    }
    if (this.#ending.aborted) {
      await held.abandon();
      this.#journal.markStopped(id);
      return;
    }
    const tail = new OutputTail(this.#settings.tailLines);
    this.#tell({ type: "workstreamStarted", workstream: id, pid: held.identity.pid });
    const result = await runCommand(held, {
      killGraceMs: this.#settings.killGraceMs,
      signal: this.#ending,
      // Its lines are told; no more of it is kept than the tail.
      maxOutputBytes: 0,
      stdout: this.#linesOf(id, "stdout", tail),
      stderr: this.#linesOf(id, "stderr", tail),
    });
    const durationMs = performance.now() - startedMs;
    if (result.aborted) {
      this.#journal.markStopped(id);
      this.#tell({ type: "workstreamStopped", workstream: id, durationMs });
    } else if (result.exitCode === 0) {
      this.#journal.markCompleted(id);
      await this.#journal.save();
      this.#tell({ type: "workstreamFinished", workstream: id, durationMs });
    } else {
      const { exitCode, signal } = result;
      const reason = reasonOf(result);
      await this.#fail({ workstream: id, exitCode, signal, reason, outputTail: tail.lines(), durationMs });
    }
  }

  /** `undefined` where it can't be started, which is a failure of its own. */
  async #hold({ id, command }: CheckedWorkstream, startedMs: number): Promise<HeldProcess | undefined> {
    try {
      return await HeldProcess.start({ shell: "sh", command, strict: true, cwd: this.#settings.cwd });
    } catch (error) {
      if (!(error instanceof ProcessStartError)) throw error;
      const durationMs = performance.now() - startedMs;
      const reason = `could not be started: ${error.reason}`;
      await this.#fail({ workstream: id, exitCode: null, signal: null, reason, outputTail: [], durationMs });
      return undefined;
    }
  }

  async #fail(failure: WorkstreamFailure): Promise<void> {
    this.#failures.push(failure);
    this.#journal.markFailed(failure.workstream);
    await this.#journal.save();
    this.#tell({ type: "workstreamFailed", ...failure });
  }

  #linesOf(workstream: string, stream: "stdout" | "stderr", tail: OutputTail): OutputLines {
    return new OutputLines((line) => {
      tail.push(line);
      this.#tell({ type: "output", workstream, stream, line });
    });
  }
}

function reasonOf({ exitCode, signal }: CommandResult): string {
  return signal === null ? `exited with ${exitCode}` : `was ended by ${signal}`;
}

/** Waits for all, then throws what the first of them was rejected with. */
async function throwFirst(promises: readonly Promise<void>[]): Promise<void> {
  const settled = await Promise.allSettled(promises);
  const rejected = settled.find((result) => result.status === "rejected");
  if (rejected !== undefined) throw rejected.reason;
}
