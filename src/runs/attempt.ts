import { decodeJson } from "../codec/json.js";
import type { StepHead } from "../codec/run-body.js";
import { RunPausedError } from "../contract/errors.js";
import { stepTitle } from "../contract/run-record.js";
import type { Lease } from "../manager/lease.js";
import { type AttemptHost, RunJournal, type Standing } from "./journal.js";
import { Pass } from "./pass.js";
import type { NextPass } from "./run.js";
import { StepValues } from "./step-values.js";
import type { StopSignal } from "./stop-signal.js";

/** A run's function. The types of `CheckpointManager.run` ensure that it takes this run and the schema's state. */
export type AnyFunction = (run: never) => unknown;

/** One attempt of a run, under a lease. */
export class Attempt {
  readonly #host: AttemptHost;
  readonly #taskId: string;
  readonly #fn: AnyFunction;
  readonly #stop: StopSignal;
  readonly #isNew: boolean;
  readonly #values: StepValues;
  readonly #journal: RunJournal;
  #failedStep: StepHead | undefined;

  constructor(
    host: AttemptHost,
    {
      taskId,
      fn,
      lease,
      stop,
      found,
    }: {
      readonly taskId: string;
      readonly fn: AnyFunction;
      readonly lease: Lease;
      readonly stop: StopSignal;
      readonly found: { readonly isNew: boolean; readonly standing: Standing };
    },
  ) {
    this.#host = host;
    this.#taskId = taskId;
    this.#fn = fn;
    this.#stop = stop;
    this.#isNew = found.isNew;
    this.#values = new StepValues(taskId, host.options);
    this.#journal = new RunJournal(taskId, host, lease, found.standing, (error) => stop.stop(error));
  }

  async run(): Promise<unknown> {
    const { events } = this.#host;
    const taskId = this.#taskId;
    try {
      if (this.#isNew) await this.#journal.save({ isPassing: true, label: "Run started" });
      const { attempt, pass } = this.#journal.head;
      events.emit("runStarted", { taskId, attempt, pass, recordedSteps: this.#journal.size.steps });
      const result = await this.#passes();
      events.emit("runEnded", { taskId, status: "completed" });
      return result;
    } catch (thrown) {
      throw await this.#ended(thrown);
    }
  }

  async #passes(): Promise<unknown> {
    for (;;) {
      const pass = this.#pass();
      let returned: unknown;
      let next: NextPass | undefined;
      try {
        returned = await this.#fn(pass as never);
        await pass.end();
        // If the run was stopped, the function may have caught the error of the stop, so its result can't be trusted.
        this.#stop.signal.throwIfAborted();
        next = pass.nextOf(returned);
      } catch (error) {
        await pass.end();
        this.#failedStep = pass.forgetErrorsOf(error);
        throw error;
      }
      pass.tellUnused();
      if (next === undefined) return await this.#complete(returned);
      await this.#journal.next(next.state, next.options);
      this.#stop.signal.throwIfAborted();
    }
  }

  #pass(): Pass<unknown, unknown, unknown> {
    const { events, reader, writer, options } = this.#host;
    const { logger, clock } = options;
    const [taskId, journal, values] = [this.#taskId, this.#journal, this.#values];
    const textOfState = (state: unknown) => writer.stateText(taskId, state);
    const host = { taskId, journal, values, events, logger, signal: this.#stop.signal, clock, textOfState };
    const { begin, input, head } = journal;
    return new Pass(host, {
      state:
        begin === undefined
          ? undefined
          : reader.decoded({ taskId, id: head.generation }, decodeJson("json-tagged", begin)),
      input: input === undefined ? undefined : values.valueOf("input", input),
    });
  }

  async #complete(returned: unknown): Promise<unknown> {
    const result = this.#values.textOf("result", returned);
    await this.#journal.save({ status: "completed", isPassOver: true, result, label: "Run completed" });
    return this.#values.valueOf("result", result);
  }

  /**
   * Records the end of an attempt that threw, unless the lease is lost or a save failed. Returns the error for the
   * caller.
   */
  async #ended(thrown: unknown): Promise<unknown> {
    const { events, options } = this.#host;
    const [taskId, { signal }] = [this.#taskId, this.#stop];
    const reason: unknown = signal.aborted ? signal.reason : thrown;
    if (!signal.aborted && !(reason instanceof RunPausedError)) {
      await this.#record({ status: "failed", error: thrown, ...this.#failure() });
      if (this.#failedStep === undefined && this.#journal.size.steps > 0) {
        options.logger.warn(
          { taskId },
          `The run of task ${JSON.stringify(taskId)} failed with an error that no step threw. The next run reuses the recorded ` +
            "results, so fix the function, or start over with `restart: true`",
        );
      }
      events.emit("runEnded", { taskId, status: "failed", error: thrown });
      return thrown;
    }
    if (reason instanceof RunPausedError) {
      await this.#record({ isPassing: true, status: "paused", label: this.#journal.after("Run paused") });
      events.emit("runPaused", { taskId, error: reason });
    } else events.emit("runEnded", { taskId, status: "stopped", error: reason });
    return reason;
  }

  /** What the checkpoint of a failure says of the step that failed. */
  #failure(): Pick<Parameters<RunJournal["save"]>[0], "label" | "failedStep"> {
    if (this.#failedStep === undefined) return { label: this.#journal.after("Run failed") };
    const { name, occurrence, startedAt, durationMs = 0, attempts = 1, runAttempt } = this.#failedStep;
    return {
      label: `Run failed in ${stepTitle(name, occurrence)}`,
      failedStep: { name, occurrence, startedAt, runAttempt, durationMs, attempts },
    };
  }

  async #record(saving: Parameters<RunJournal["save"]>[0]): Promise<void> {
    try {
      await this.#journal.save(saving);
    } catch (error) {
      this.#host.options.logger.warn({ taskId: this.#taskId, error }, "The end of a run could not be recorded");
    }
  }
}
