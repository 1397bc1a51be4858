import type { Logger } from "waymark";
import { isError } from "waymark/kit";
import type { CheckpointExecutionState, PrpStage, ValidationGateResult, WorkProgress } from "waymark/prp";
import { coderCommand } from "../coders/coder-command.js";
import { REPORT_BYTES, reportOf } from "../coders/coder-report.js";
import { boundText } from "../processes/bounded-capture.js";
import { type CommandLine, ProcessStartError } from "../processes/command.js";
import { CommandOutput } from "../processes/command-output.js";
import { type CommandResult, runCommand } from "../processes/run-command.js";
import { RunnerError } from "../runner-error.js";
import { type CoderOutcome, callCoder } from "./coder.js";
import { replyIn } from "./coder-reply.js";
import type { RunSettings } from "./executor-options.js";
import { gateLine } from "./gates/gate-line.js";
import { gateName, type LoadedPrp } from "./load-prp.js";
import {
  afterCoder,
  afterGate,
  findPosition,
  listResults,
  nextStep,
  outdatedResults,
  type Position,
  resultsToSkip,
  START,
  type Step,
  withoutResults,
} from "./next-step.js";
import { openSink } from "./output.js";
import { executionPrompt, fixPrompt } from "./prompts.js";
import type { RunJournal } from "./run-journal.js";
import { progressText, saveProgress, toProgress, type Work } from "./work-progress.js";
import { readWorkState, type WorkState } from "./work-state.js";

/** The result of an execution. */
export interface ExecutionResult {
  /** True if every gate passed or was skipped. */
  readonly success: boolean;
  /** The results of the gates for the last usable response. */
  readonly validationResults: ValidationGateResult[];
  /** Files that the coder says it made or changed. */
  readonly artifacts: string[];
  /** Why the execution failed. */
  readonly error?: string;
  /** How many times the coder was asked to fix a failed gate. */
  readonly fixAttempts: number;
  /** The checkpoint that the execution resumed from. */
  readonly resumedFrom?: { readonly id: string; readonly stage: PrpStage };
}

type CoderStep = Extract<Step, { kind: "coder" }>;
type GateStep = Extract<Step, { kind: "gate" }>;

/** The position after a step. */
interface Done {
  readonly position: Position;
  readonly error?: unknown;
}

/** One execution of a PRP. It works from position to position, and saves each one before it continues. */
export class PrpRun {
  readonly #prp: LoadedPrp;
  readonly #settings: RunSettings;
  readonly #journal: RunJournal;
  readonly #signal: AbortSignal;
  /** The progress of a command that was ended to pause the run. */
  #cutShort: { readonly progress: WorkProgress; readonly text: string } | undefined;

  constructor(prp: LoadedPrp, settings: RunSettings, journal: RunJournal, signal: AbortSignal) {
    this.#prp = prp;
    this.#settings = settings;
    this.#journal = journal;
    this.#signal = signal;
  }

  async execute(restart: boolean): Promise<ExecutionResult> {
    const { newest } = this.#journal;
    if (newest === undefined || restart) return this.#work(START, "new");
    const { id, state } = newest;
    const resumedFrom = { id, stage: state.stage };
    const position = findPosition(state, this.#prp.gates, state.waymark === undefined);
    this.#noteChanges(state);
    const wasKilled = newest.status === "running" && state.waymark?.work !== undefined;
    this.#log(
      "info",
      { type: "resumed", from: id },
      `Resuming from ${state.stage}${wasKilled ? ", where the last run was killed" : ""}`,
    );
    const checked = await this.#withoutStaleResults(position);
    const isSaved = checked === position && position.stage === state.stage;
    return { ...(await this.#work(checked, isSaved ? "saved" : "reopened")), resumedFrom };
  }

  /** Drops the result of each gate that passed on an older state of the work, and logs why the gate runs again. */
  async #withoutStaleResults(position: Position): Promise<Position> {
    const { gates } = this.#prp;
    const results = resultsToSkip(position, gates);
    if (results.size === 0) return position;
    const now = await this.#readWorkState();
    const stale = [...results].flatMap(([stage, result]) => {
      const why = whyStale(result, now);
      if (why === undefined) return [];
      const text = `Gate ${gateName(stage)} runs again: ${why}`;
      this.#log("info", { type: "gateRunsAgain", level: result.level }, text);
      return [stage];
    });
    return stale.length === 0 ? position : withoutResults(position, stale, gates);
  }

  #readWorkState(): Promise<WorkState> {
    const { cwd, sessionPath } = this.#settings;
    return readWorkState({ cwd, sessionPath, prpPath: this.#prp.path, signal: this.#signal });
  }

  /** Logs changes of the PRP since the last run: agents tick its boxes, and people fix its gates. */
  #noteChanges(state: CheckpointExecutionState): void {
    const gates = outdatedResults(state, this.#prp.gates).map(
      ({ level, description }) => `level ${level} (${description})`,
    );
    const { prpDigest } = state.waymark ?? {};
    if (gates.length > 0) {
      const text = `These gates have changed or were removed since they ran, so their results don't count: ${gates.join(", ")}`;
      this.#log("info", { type: "gatesChanged" }, text);
    } else if (prpDigest !== undefined && prpDigest !== this.#prp.digest) {
      const text = "Its text has changed since the last run; the gates that passed have not";
      this.#log("info", { type: "textChanged" }, text);
    }
  }

  /** @param origin - Whether the position is new, the saved one, or derived from the saved one. */
  async #work(start: Position, origin: "new" | "saved" | "reopened"): Promise<ExecutionResult> {
    const { maxFixAttempts } = this.#settings;
    let position = start;
    let isSaved = origin === "saved";
    let label = origin === "new" ? formatLabel(position) : `Resumed: ${formatLabel(position)}`;
    let error: unknown;
    for (;;) {
      const step = nextStep(position, this.#prp.gates, maxFixAttempts);
      if (step.kind === "return") {
        if (!isSaved) await this.#journal.save(position, { label, error });
        return this.#toResult(position, error);
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
      label = formatLabel(position);
      isSaved = false;
    }
  }

  /** Saves the position, then works on the step. */
  async #workOn(step: CoderStep | GateStep, position: Position, label: string): Promise<Done> {
    if (this.#signal.aborted) return this.#pause(position);
    await this.#journal.save(position, { label, work: toWork(step) });
    if (this.#signal.aborted) return this.#pause(position);
    this.#log("debug", { type: "stepStarted", ...toWork(step) }, "The next step starts");
    const done = step.kind === "gate" ? await this.#runGate(step, position) : await this.#runCoder(step, position);
    return done ?? this.#pause(position);
  }

  async #pause(position: Position): Promise<never> {
    const { progress, text } = this.#cutShort ?? {};
    const label = `Paused: ${formatLabel(position)}${text === undefined ? "" : ` (${text})`}`;
    try {
      await this.#journal.save(position, { label, status: "paused", progress });
    } catch (error) {
      // The run can also be resumed from its previous entry, and the caller must get the reason why the run ended.
      this.#log("error", { error }, "The paused run could not be marked as such");
    }
    throw this.#signal.reason;
  }

  /** Returns `undefined` if the run was paused before the gate had ended. */
  async #runGate(step: GateStep, position: Position): Promise<Done | undefined> {
    const { level, description, command } = step.gate;
    const line = await gateLine(step.gate, this.#settings.cwd);
    const ranOn = await this.#digestToSave();
    const ran = await this.#run(line, step, position, this.#settings.gateTimeoutMs);
    if (ran.aborted) return undefined;
    const { exitCode, stdout, stderr, timedOut } = ran;
    const success = exitCode === 0;
    const ended = { type: "stepEnded", kind: "gate", level, exitCode };
    this.#log(
      success ? "info" : "warn",
      ended,
      `Gate ${gateName(step.gate.stage)} ${success ? "passed" : timedOut ? "timed out" : "failed"}`,
    );
    // If the work changed while the gate ran, it is unknown which state of the work passed.
    const isSame = success && ranOn !== undefined && ranOn === (await this.#digestToSave());
    const result = {
      ...{ level, description, success, command, stdout, stderr, exitCode, skipped: false },
      ...(isSame && { passedOn: ranOn }),
      ...(timedOut && { timedOut }),
    };
    return { position: afterGate(position, step.gate, result) };
  }

  /** Returns a digest of the work for a resumed run to compare; `undefined` if it is unknown or won't be saved. */
  async #digestToSave(): Promise<string | undefined> {
    if (!this.#journal.isKept) return undefined;
    const state = await this.#readWorkState();
    if ("digest" in state) return state.digest;
    this.#log("debug", {}, `A resumed run will run this gate again: ${state.whyUnknown}`);
    return undefined;
  }

  /** Returns `undefined` if the run was paused before the coder had answered. */
  async #runCoder(step: CoderStep, position: Position): Promise<Done | undefined> {
    const { coder, coderTimeoutMs: timeoutMs, killGraceMs: graceMs, maxOutputBytes, cwd } = this.#settings;
    const { failedGates, fixAttempt } = step;
    const prompt =
      failedGates.length === 0
        ? executionPrompt(this.#prp)
        : fixPrompt(this.#prp, failedGates, { number: fixAttempt, of: this.#settings.maxFixAttempts });
    let outcome: CoderOutcome | undefined;
    if (typeof coder === "string") {
      const line: CommandLine = { shell: "sh", command: coderCommand(coder).command, cwd, input: prompt };
      const ran = await this.#run(line, step, position, timeoutMs);
      outcome = ran.aborted ? undefined : { response: ran.stdout, reply: replyIn(reportOf(ran)) };
    } else {
      const { taskId, path: prpPath } = this.#prp;
      const request = { taskId, prpPath, cwd, fixAttempt, failedGates, prompt, signal: this.#signal };
      const answered = await callCoder(coder, request, { timeoutMs, graceMs });
      // A command's response is already bounded while it arrives.
      outcome = answered && { ...answered, response: boundText(answered.response, maxOutputBytes) };
    }
    if (outcome === undefined) return undefined;
    const { reply, error } = outcome;
    const ended = { type: "stepEnded", kind: "coder", ...reply };
    this.#log(reply.result === "success" ? "info" : "warn", ended, `The coder reported ${reply.result}`);
    return { position: afterCoder(position, step.fixAttempt, outcome), error };
  }

  /** Runs a command, and saves its progress until it has ended. */
  async #run(
    line: CommandLine,
    step: CoderStep | GateStep,
    position: Position,
    timeoutMs: number | undefined,
  ): Promise<CommandResult> {
    const { output: shown, logger, killGraceMs, maxOutputBytes, autoSaveIntervalMs: intervalMs } = this.#settings;
    const work = toWork(step);
    const source = { taskId: this.#prp.taskId, ...work };
    const output = new CommandOutput(maxOutputBytes, step.kind === "coder" ? REPORT_BYTES : 0);
    const soFar = () => {
      const progress = toProgress(work, output);
      return { progress, text: progressText(progress, step.kind === "coder" ? step.fixAttempt : 0) };
    };
    const stopSaving = saveProgress(output, {
      intervalMs,
      save: () => {
        const { progress, text } = soFar();
        const label = `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
        return this.#journal.save(position, { label, work, progress, isTransient: true });
      },
      failed: (error) =>
        this.#log("error", { error }, "Its progress could not be saved; the next save is tried as planned"),
    });
    try {
      const ran = await runCommand(line, {
        timeoutMs,
        killGraceMs,
        holds: this.#journal.watched,
        signal: this.#signal,
        output,
        stdout: openSink(shown, { ...source, stream: "stdout" }, logger),
        stderr: openSink(shown, { ...source, stream: "stderr" }, logger),
      });
      if (ran.aborted) this.#cutShort = soFar();
      return ran;
    } catch (cause) {
      if (!(cause instanceof ProcessStartError)) throw cause;
      // A coder can't fix the machine, so the work so far is saved until a person fixes it.
      await this.#journal.save(position, { label: `Paused: ${formatLabel(position)}`, status: "paused", error: cause });
      const what = step.kind === "gate" ? `Gate ${step.gate.level}` : "The coder";
      throw new RunnerError(
        "PROCESS_NOT_STARTED",
        `${what} of PRP ${this.#prp.taskId} could not be started: ${cause.reason}. The work done before is saved; ` +
          "fix this, then execute the PRP again to continue.",
        { cause },
      );
    } finally {
      // Waits for a save in progress, because the next save must follow it.
      await stopSaving();
    }
  }

  #toResult(position: Position, error: unknown): ExecutionResult {
    const { stage, artifacts, fixAttempt: fixAttempts } = position;
    const validationResults = listResults(position, this.#prp.gates);
    const result = { success: stage === "complete", validationResults, artifacts: [...artifacts], fixAttempts };
    if (stage === "complete") return result;
    return { ...result, error: isError(error) ? error.message : String(error) };
  }

  #log(level: keyof Logger, details: object, message: string): void {
    this.#settings.logger[level]({ taskId: this.#prp.taskId, ...details }, `PRP ${this.#prp.taskId}: ${message}`);
  }
}

/** Returns why a passed gate's result doesn't hold for the current work. */
function whyStale({ passedOn }: ValidationGateResult, now: WorkState): string | undefined {
  if ("whyUnknown" in now) return now.whyUnknown;
  if (passedOn === undefined) return "its checkpoint doesn't record the state of the work on which it passed";
  return passedOn === now.digest ? undefined : "the work has changed since it passed";
}

function toWork(step: CoderStep | GateStep): Work {
  return step.kind === "gate" ? { kind: "gate", level: step.gate.level } : { kind: "coder" };
}

function formatLabel({ stage, coderResult, results, fixAttempt }: Position): string {
  if (stage === "pre-execution") return "Before the coder";
  if (stage === "complete") return "Complete";
  if (stage === "failed") return "Failed";
  if (stage === "coder-response") {
    const whose = fixAttempt === 0 ? "The coder's response" : `The response to fix attempt ${fixAttempt}`;
    return coderResult === undefined || coderResult.result === "success" ? whose : `${whose}: ${coderResult.result}`;
  }
  return `Gate ${gateName(stage)} ${results.get(stage)?.success === false ? "failed" : "passed"}`;
}
