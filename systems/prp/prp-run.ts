import type { Logger } from "../../src/manager/logger.js";
import { boundText } from "../processes/bounded-capture.js";
import { HeldProcess, type HeldProcessOptions, ProcessStartError } from "../processes/held-process.js";
import { endOrphanedGroup } from "../processes/process-group.js";
import { type CommandResult, runCommand } from "../processes/run-command.js";
import { type Coder, type CoderOutcome, type CoderRequest, callCoder, coderOutcomeOf, REPLY_BYTES } from "./coder.js";
import { PrpError } from "./errors.js";
import { afterCoder, afterGate, nextStep, type Position, positionOf, START, type Step } from "./next-step.js";
import { type OutputSource, openSink, type PrpOutput } from "./output.js";
import { executionPrompt, fixPrompt } from "./prompts.js";
import type { LoadedPrp } from "./prp-document.js";
import type { RunJournal } from "./run-journal.js";
import type { PrpRunState, PrpStage, ValidationGateResult, WorkProgress } from "./schema.js";
import { OutputSoFar, ProgressSaver, progressText } from "./work-progress.js";

/** The executor's options with their defaults. */
export interface RunSettings {
  readonly coder: Coder;
  readonly maxFixAttempts: number;
  readonly gateTimeoutMs: number;
  readonly coderTimeoutMs: number | undefined;
  readonly killGraceMs: number;
  readonly maxOutputBytes: number;
  /** 0: never. */
  readonly autoSaveIntervalMs: number;
  readonly cwd: string;
  readonly output: PrpOutput | undefined;
  readonly logger: Logger;
}

/** What came of a PRP. */
export interface ExecutionResult {
  /** Every gate passed, or was skipped. */
  readonly success: boolean;
  /** Of the last response that could be used. */
  readonly validationResults: ValidationGateResult[];
  /** Files that the coder says it made or changed. */
  readonly artifacts: string[];
  /** Why it failed. */
  readonly error?: string;
  /** How often the coder was asked to fix what a gate had found. */
  readonly fixAttempts: number;
  /** The checkpoint that the execution went on from. */
  readonly resumedFrom?: { readonly id: string; readonly stage: PrpStage };
}

type Work = Extract<Step, { kind: "coder" | "gate" }>;

/** A command that waits to be let go, and what a checkpoint calls it. */
interface Command {
  readonly held: HeldProcess;
  readonly process: NonNullable<PrpRunState["process"]>;
}

/** One execution of one PRP: works from position to position, and writes each down before it goes on. */
export class PrpRun {
  readonly #prp: LoadedPrp;
  readonly #settings: RunSettings;
  readonly #journal: RunJournal;
  readonly #signal: AbortSignal;
  /** How far a command had come that was ended because the run is to pause. */
  #cutShort: { readonly progress: WorkProgress; readonly text: string } | undefined;

  constructor(prp: LoadedPrp, settings: RunSettings, journal: RunJournal, signal: AbortSignal) {
    this.#prp = prp;
    this.#settings = settings;
    this.#journal = journal;
    this.#signal = signal;
  }

  async execute(restart: boolean): Promise<ExecutionResult> {
    const { newest } = this.#journal;
    if (newest === undefined) return this.#work(START, "new");
    const { id, state } = newest;
    const digest = state.waymark?.prpDigest;
    if (!restart && digest !== undefined && digest !== this.#prp.digest) {
      throw new PrpError(
        "PRP_CHANGED",
        `The PRP of task ${JSON.stringify(this.#prp.taskId)} has changed since checkpoint ${id}: its text or its gates are ` +
          "not what that work was done for. Nothing was changed; undo the change, or restart it to begin anew.",
      );
    }
    const left = state.waymark?.process;
    if (left !== undefined && (await endOrphanedGroup(left, this.#settings.killGraceMs))) {
      this.#log("warn", { ...left }, `Ended the ${left.kind} that a killed run had left behind`);
    }
    if (restart) return this.#work(START, "new");
    const resumedFrom = { id, stage: state.stage };
    const position = positionOf(state, state.waymark === undefined);
    this.#log("info", { from: id }, `Resuming from ${state.stage}`);
    return { ...(await this.#work(position, position.stage === state.stage ? "saved" : "reopened")), resumedFrom };
  }

  /** @param origin - Whether the position is a new one, the saved one, or one that was made of it. */
  async #work(start: Position, origin: "new" | "saved" | "reopened"): Promise<ExecutionResult> {
    const { maxFixAttempts } = this.#settings;
    let position = start;
    let isSaved = origin === "saved";
    let label = origin === "new" ? labelOf(position) : `Resumed: ${labelOf(position)}`;
    let error: unknown;
    for (;;) {
      const step = nextStep(position, this.#prp.gates, maxFixAttempts);
      if (step.kind === "return") {
        if (!isSaved) await this.#journal.save(position, { label, error });
        return resultOf(position, error);
      }
      if (step.kind === "finish") {
        if (!isSaved) await this.#journal.save(position, { label });
        position = step.position;
        error ??= step.error;
      } else {
        const outcome = await this.#workOn(step, position, label);
        position = outcome.position;
        error = outcome.error;
      }
      label = labelOf(position);
      isSaved = false;
    }
  }

  /** Saves the position, names in it the process that works on the step, and only then lets that one go. */
  async #workOn(step: Work, position: Position, label: string): Promise<{ position: Position; error?: unknown }> {
    if (this.#signal.aborted) return this.#pause(position);
    const command = await this.#prepare(step, position);
    try {
      await this.#journal.save(position, { label, process: command?.process });
    } catch (error) {
      await command?.held.abandon();
      throw error;
    }
    if (this.#signal.aborted) {
      await command?.held.abandon();
      return this.#pause(position);
    }
    const done =
      step.kind === "gate"
        ? await this.#runGate(step, position, command)
        : await this.#runCoder(step, position, command);
    return done ?? this.#pause(position);
  }

  async #pause(position: Position): Promise<never> {
    const { progress, text } = this.#cutShort ?? {};
    const label = `Paused: ${labelOf(position)}${text === undefined ? "" : ` (${text})`}`;
    try {
      await this.#journal.save(position, { label, status: "paused", progress });
    } catch (error) {
      // The entry before it stands, and is gone on with just as well. The caller waits for why the run ended.
      this.#log("error", { error }, "The paused run could not be marked as such");
    }
    throw this.#signal.reason;
  }

  /** Holds the step's process; `undefined` where it needs none (a coder that is a function). */
  async #prepare(step: Work, position: Position): Promise<Command | undefined> {
    const command = this.#commandOf(step);
    if (command === undefined) return undefined;
    try {
      const held = await HeldProcess.start(command);
      return { held, process: { ...held.identity, ...sourceOf(step) } };
    } catch (cause) {
      if (!(cause instanceof ProcessStartError)) throw cause;
      // No coder can mend the machine. What was done up to here would be lost for a missing folder: it is saved first.
      await this.#journal.save(position, { label: `Paused: ${labelOf(position)}`, status: "paused", error: cause });
      const what = step.kind === "gate" ? `Gate ${step.gate.level}` : "The coder";
      throw new PrpError(
        "PROCESS_NOT_STARTED",
        `${what} of PRP ${this.#prp.taskId} could not be started: ${cause.reason}. What was done before is saved; ` +
          "mend this and execute the PRP again to go on.",
        { cause },
      );
    }
  }

  #commandOf(step: Work): HeldProcessOptions | undefined {
    const { coder, cwd } = this.#settings;
    if (step.kind === "gate") {
      return { shell: step.gate.shell ?? "bash", command: step.gate.command, strict: true, cwd };
    }
    if (typeof coder !== "string") return undefined;
    return { shell: "sh", command: coder, strict: false, cwd, input: this.#promptOf(step) };
  }

  async #runGate(
    step: Extract<Work, { kind: "gate" }>,
    position: Position,
    held: Command | undefined,
  ): Promise<{ position: Position } | undefined> {
    const { level, description, command } = step.gate;
    const ran = await this.#run(step, position, held, this.#settings.gateTimeoutMs);
    if (ran.aborted) return undefined;
    const { exitCode, stdout, stderr } = ran;
    const success = exitCode === 0;
    this.#log(success ? "info" : "warn", { level, exitCode }, `Gate ${level} ${success ? "passed" : "failed"}`);
    const result = { level, description, success, command, stdout, stderr, exitCode, skipped: false };
    return { position: afterGate(position, result, this.#prp.gates) };
  }

  async #runCoder(
    step: Extract<Work, { kind: "coder" }>,
    position: Position,
    command: Command | undefined,
  ): Promise<{ position: Position; error?: unknown } | undefined> {
    const { coder, coderTimeoutMs: timeoutMs, killGraceMs: graceMs, maxOutputBytes } = this.#settings;
    let outcome: CoderOutcome | undefined;
    if (typeof coder === "string") {
      const ran = await this.#run(step, position, command, timeoutMs);
      outcome = ran.aborted ? undefined : coderOutcomeOf(ran);
    } else {
      const answered = await callCoder(coder, this.#requestFor(step), { timeoutMs, graceMs });
      // A command's is bounded as it comes; twice, and the text would tell the wrong number of bytes.
      outcome = answered && { ...answered, response: boundText(answered.response, maxOutputBytes) };
    }
    if (outcome === undefined) return undefined;
    const { reply, error } = outcome;
    this.#log(reply.result === "success" ? "info" : "warn", { ...reply }, `The coder reported ${reply.result}`);
    return { position: afterCoder(position, step.fixAttempt, outcome), error };
  }

  /** Lets a held command go, and saves how far it has come until it has ended. */
  async #run(
    step: Work,
    position: Position,
    command: Command | undefined,
    timeoutMs: number | undefined,
  ): Promise<CommandResult> {
    if (command === undefined) throw new Error("A command is held before it is run.");
    const { held, process } = command;
    const { output, logger, killGraceMs, maxOutputBytes, autoSaveIntervalMs: intervalMs } = this.#settings;
    const source = { taskId: this.#prp.taskId, ...sourceOf(step) };
    const soFar = new OutputSoFar(sourceOf(step), maxOutputBytes);
    const textOf = (progress: WorkProgress) => progressText(progress, step.kind === "coder" ? step.fixAttempt : 0);
    const saver = new ProgressSaver(soFar, {
      intervalMs,
      save: (progress) =>
        this.#journal.saveProgress(position, { label: capitalized(textOf(progress)), process, progress }),
      failed: (error) =>
        this.#log("error", { error }, "How far it has come could not be saved; it will be tried again"),
    });
    try {
      const ran = await runCommand(held, {
        timeoutMs,
        killGraceMs,
        maxOutputBytes,
        endBytes: step.kind === "coder" ? REPLY_BYTES : 0,
        signal: this.#signal,
        stdout: soFar.through("stdout", openSink(output, { ...source, stream: "stdout" }, logger)),
        stderr: soFar.through("stderr", openSink(output, { ...source, stream: "stderr" }, logger)),
      });
      if (ran.aborted) {
        const progress = soFar.progress();
        this.#cutShort = { progress, text: textOf(progress) };
      }
      return ran;
    } finally {
      // Whatever is saved next follows on what is being saved.
      await saver.stop();
    }
  }

  #requestFor(step: Extract<Work, { kind: "coder" }>): CoderRequest {
    const { taskId, path: prpPath } = this.#prp;
    const { fixAttempt, failedGates } = step;
    const { cwd } = this.#settings;
    return { taskId, prpPath, cwd, fixAttempt, failedGates, prompt: this.#promptOf(step), signal: this.#signal };
  }

  #promptOf({ fixAttempt, failedGates }: Extract<Work, { kind: "coder" }>): string {
    if (failedGates.length === 0) return executionPrompt(this.#prp);
    return fixPrompt(this.#prp, failedGates, { number: fixAttempt, of: this.#settings.maxFixAttempts });
  }

  #log(level: "info" | "warn" | "error", details: object, message: string): void {
    this.#settings.logger[level]({ taskId: this.#prp.taskId, ...details }, `PRP ${this.#prp.taskId}: ${message}`);
  }
}

function sourceOf(step: Work): Pick<OutputSource, "kind" | "level"> {
  return step.kind === "gate" ? { kind: "gate", level: step.gate.level } : { kind: "coder" };
}

function labelOf({ stage, coderResult, validationResults, fixAttempt }: Position): string {
  if (stage === "pre-execution") return "Before the coder";
  if (stage === "complete") return "Complete";
  if (stage === "failed") return "Failed";
  if (stage === "coder-response") {
    const whose = fixAttempt === 0 ? "The coder's response" : `The response to fix attempt ${fixAttempt}`;
    return coderResult === undefined || coderResult.result === "success" ? whose : `${whose}: ${coderResult.result}`;
  }
  const last = validationResults.findLast(({ skipped }) => !skipped);
  return `Gate ${stage.slice(-1)} ${last?.success === false ? "failed" : "passed"}`;
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function resultOf({ stage, validationResults, artifacts, fixAttempt }: Position, error: unknown): ExecutionResult {
  const result = {
    success: stage === "complete",
    validationResults: [...validationResults],
    artifacts: [...artifacts],
    fixAttempts: fixAttempt,
  };
  if (stage === "complete") return result;
  return { ...result, error: error instanceof Error ? error.message : String(error) };
}
