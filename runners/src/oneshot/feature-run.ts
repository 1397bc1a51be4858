import { setMaxListeners } from "node:events";
import { ProcessStartError } from "../processes/command.js";
import { CommandOutput, type OutputSink } from "../processes/command-output.js";
import { type CommandResult, runCommand } from "../processes/run-command.js";
import type { OneshotListener, WorkstreamFailure } from "./events.js";
import type { FeatureJournal } from "./feature-journal.js";
import type { Settings } from "./oneshot-options.js";
import { lineSink, OutputTail } from "./output-lines.js";
import type { CheckedWorkstream } from "./plan.js";

export interface RunContext {
  /** Ends the running commands when it aborts. */
  readonly signal: AbortSignal;
  /** The file descriptor for the watchdogs of the run's commands. */
  readonly watched: number | undefined;
  readonly tell: OneshotListener;
}

/** One run of a feature. It starts every workstream that may start, and saves each step before the next one. */
export class FeatureRun {
  readonly #workstreams: readonly CheckedWorkstream[];
  readonly #journal: FeatureJournal;
  readonly #settings: Settings;
  readonly #context: RunContext;
  /** Aborts with the caller's signal, or once the run can't continue. */
  readonly #ending: AbortSignal;
  readonly #breakdown = new AbortController();
  readonly #begun = new Set<string>();
  readonly #failures: WorkstreamFailure[] = [];

  constructor(
    workstreams: readonly CheckedWorkstream[],
    journal: FeatureJournal,
    settings: Settings,
    context: RunContext,
  ) {
    this.#workstreams = workstreams;
    this.#journal = journal;
    this.#settings = settings;
    this.#context = context;
    this.#ending = AbortSignal.any([context.signal, this.#breakdown.signal]);
    // Each running workstream adds a listener. By default, Node warns about a leak from the eleventh listener on.
    setMaxListeners(0, this.#ending);
  }

  /** The failures, in the order in which they happened. */
  get failures(): readonly WorkstreamFailure[] {
    return this.#failures;
  }

  /**
   * Runs all workstreams that are not completed, in the plan's order, up to `jobs` at a time. Once a workstream has
   * failed, no other is started, and the running ones finish. Resolves when no workstream is running any more.
   *
   * @throws {CheckpointConflictError | StorageError} A checkpoint could not be saved; running workstreams were ended.
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

  /** Returns the first workstream of the plan that may start now. */
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
    this.#journal.mark(id, "running");
    await this.#journal.save();
    if (this.#ending.aborted) return this.#journal.mark(id, "stopped");
    this.#context.tell({ type: "workstreamStarted", workstream: id });
    const tail = new OutputTail(this.#settings.tailLines);
    const result = await this.#runCommand(workstream, tail);
    const durationMs = Math.round(performance.now() - startedMs);
    if (result instanceof ProcessStartError) {
      const reason = `could not be started: ${result.reason}`;
      await this.#fail({ workstream: id, exitCode: null, signal: null, reason, outputTail: [], durationMs });
    } else if (result.aborted) {
      this.#journal.mark(id, "stopped");
      this.#context.tell({ type: "workstreamStopped", workstream: id, durationMs });
    } else if (result.exitCode === 0) {
      this.#journal.mark(id, "completed");
      await this.#journal.save();
      this.#context.tell({ type: "workstreamFinished", workstream: id, durationMs });
    } else {
      const { exitCode, signal } = result;
      const reason = signal === null ? `exited with ${exitCode}` : `was ended by ${signal}`;
      await this.#fail({ workstream: id, exitCode, signal, reason, outputTail: tail.lines(), durationMs });
    }
  }

  async #runCommand(
    { id, command, file }: CheckedWorkstream,
    tail: OutputTail,
  ): Promise<CommandResult | ProcessStartError> {
    const { cwd, killGraceMs } = this.#settings;
    try {
      return await runCommand(
        { shell: "sh", command, strict: true, cwd, env: file === undefined ? undefined : { WS: id, WS_FILE: file } },
        {
          killGraceMs,
          holds: this.#context.watched,
          signal: this.#ending,
          // The listener gets the lines, so only the last ones are kept, in `tail`.
          output: new CommandOutput(0),
          stdout: this.#makeLines(id, "stdout", tail),
          stderr: this.#makeLines(id, "stderr", tail),
        },
      );
    } catch (error) {
      if (error instanceof ProcessStartError) return error;
      throw error;
    }
  }

  async #fail(failure: WorkstreamFailure): Promise<void> {
    this.#failures.push(failure);
    this.#journal.mark(failure.workstream, "failed");
    await this.#journal.save();
    this.#context.tell({ type: "workstreamFailed", ...failure });
  }

  #makeLines(workstream: string, stream: "stdout" | "stderr", tail: OutputTail): OutputSink {
    return lineSink((line) => {
      tail.push(line);
      this.#context.tell({ type: "output", workstream, stream, line });
    });
  }
}
