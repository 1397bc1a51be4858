import type { RunRecord, StepRecord } from "../contract/run-record.js";
import { Decoder } from "./decoder.js";
import { decodeText, type EncodedState } from "./json.js";
import { isRecord } from "./tags.js";
import { damagedPayload, type PayloadOwner } from "./transforms.js";

/**
 * The parts of a run's checkpoint, whose text has the encoding `json-run`:
 *
 * ```
 * {"state":{"n":3},"run":{"id":"a1","generation":"a0","attempt":1,"turn":2,"isTurnOver":false,"input":7,"steps":[…]}}
 * ```
 *
 * The user's values (`state`, `begin`, `input`, `result`, each step's `result` or `error`) are texts in `json-tagged`.
 * Each is encoded once, and the texts are joined for each save. The state comes first, because it stays the same while
 * steps are added. So a storage that stores differences finds the difference at once.
 */
export interface RunParts {
  readonly head: RunHead;
  /**
   * The texts of the user's values. `begin` is the state at the beginning of the turn, left out if it equals `state`.
   * `state` is left out if no state was saved yet.
   */
  readonly state?: string | undefined;
  readonly begin?: string | undefined;
  readonly input?: string | undefined;
  readonly result?: string | undefined;
  readonly failedStep?: RunRecord["failedStep"] | undefined;
}

/** The parts of a run's checkpoint from which the run continues, with its steps. */
export interface RunBody extends Omit<RunParts, "failedStep"> {
  readonly steps: readonly StoredStep[];
}

/** The plain part of {@link RunParts}. */
export interface RunHead
  extends Pick<RunRecord, "generation" | "attempt" | "turn" | "isTurnOver" | "version" | "traceparent"> {
  /** The checkpoint's id. In a copy (a fork, a rewind) it is the id of the original. */
  readonly id: string;
  /**
   * The fencing token of the attempt that continues after this checkpoint: the one that saved it, or the next one if the
   * attempt ended with it. A higher token means that the task was claimed in between, and nothing was saved.
   */
  readonly nextToken?: number;
  /** If a worker's attempt saved the checkpoint at its start: how many began in a row, and saved nothing else. */
  readonly starts?: number;
}

/** A step without its result. */
export interface StepHead extends Omit<StepRecord, "result" | "error"> {
  readonly input?: string;
  /** The milestone's id, if the status is `saved`. */
  readonly id?: string;
}

/** Encodes a step. @param value - The text of its result or error. */
export function encodeStep(head: StepHead, value: string | undefined): string {
  const text = JSON.stringify(head);
  if (value === undefined) return text;
  return `${text.slice(0, -1)},"${head.status === "failed" ? "error" : "result"}":${value}}`;
}

/**
 * The text of a run's checkpoint. {@link parseRunBody} and {@link decodeRunBody} read it.
 *
 * @param steps - Texts of {@link encodeStep}, joined by commas.
 */
export function encodeRunBody(
  { head, state, begin, input, result, failedStep }: RunParts,
  steps: string,
): EncodedState {
  const run = [
    JSON.stringify(head).slice(0, -1),
    ...(input === undefined ? [] : [`"input":${input}`]),
    ...(begin === undefined ? [] : [`"begin":${begin}`]),
    ...(result === undefined ? [] : [`"result":${result}`]),
    ...(failedStep === undefined ? [] : [`"failedStep":${JSON.stringify(failedStep)}`]),
    '"steps":[',
  ].join(",");
  const text = `{${state === undefined ? "" : `"state":${state},`}"run":${run}${steps}]}}`;
  return { encoding: "json-run", text };
}

/** A stored step, with the text of its result or error. */
export interface StoredStep {
  readonly head: StepHead;
  readonly value: string | undefined;
}

/** Parses a text of {@link encodeRunBody}. @throws {CheckpointCorruptError} It isn't a run's text. */
export function parseRunBody(text: string, owner: PayloadOwner): RunBody {
  const { state, run } = decodeText(text, owner, (body) => requireRun(body, owner));
  const { input, begin, result, steps, failedStep: _failedStep, ...head } = run;
  return {
    head,
    state: stringify(state),
    begin: stringify(begin),
    input: stringify(input),
    result: stringify(result),
    steps: steps.map(({ result: value, error = value, ...step }) => ({ head: step, value: stringify(error) })),
  };
}

/** The user's state, and the run's record. @throws {CheckpointCorruptError} It isn't a run's text. */
export function decodeRunBody(text: string, owner: PayloadOwner): { readonly state: unknown; readonly run: RunRecord } {
  return decodeText(text, owner, (body) => {
    const { state, run } = requireRun(body, owner);
    const { id: _id, begin: _begin, nextToken: _nextToken, starts: _starts, ...record } = run;
    const decoder = new Decoder(owner);
    const steps = record.steps.map(({ input: _input, id: _milestone, ...step }) => ({
      ...step,
      ...("result" in step && { result: decoder.value(step.result) }),
      ...("error" in step && { error: decoder.value(step.error) }),
    }));
    const decoded = {
      ...record,
      ...("input" in record && { input: decoder.value(record.input) }),
      ...("result" in record && { result: decoder.value(record.result) }),
      steps,
    };
    return { state: decoder.value(state), run: decoded };
  });
}

interface ParsedRun extends RunHead, Pick<RunRecord, "failedStep"> {
  readonly input?: unknown;
  readonly begin?: unknown;
  readonly result?: unknown;
  readonly steps: readonly ParsedStep[];
}

interface ParsedStep extends StepHead {
  readonly result?: unknown;
  readonly error?: unknown;
}

function requireRun(body: unknown, owner: PayloadOwner): { readonly state: unknown; readonly run: ParsedRun } {
  const { state, run } = isRecord(body) ? body : {};
  if (isParsedRun(run)) return { state, run };
  throw damagedPayload(owner, "its text doesn't hold a run");
}

const RUN = { id: "string", generation: "string", attempt: "number", turn: "number", isTurnOver: "boolean" };
const STEP = { name: "string", occurrence: "number", startedAt: "string" };
const FAILED_STEP = { ...STEP, runAttempt: "number", durationMs: "number", attempts: "number" };
const STATUSES: readonly unknown[] = ["started", "completed", "failed", "saved"] satisfies StepRecord["status"][];

function isParsedRun(run: unknown): run is ParsedRun {
  if (!has(run, RUN) || !Array.isArray(run["steps"])) return false;
  const { steps, traceparent = "", failedStep } = run;
  return (
    steps.every((step: unknown) => has(step, STEP) && STATUSES.includes(step["status"])) &&
    typeof traceparent === "string" &&
    (failedStep === undefined || has(failedStep, FAILED_STEP))
  );
}

function has(value: unknown, types: Readonly<Record<string, string>>): value is Record<string, unknown> {
  return isRecord(value) && Object.entries(types).every(([key, type]) => typeof value[key] === type);
}

function stringify(value: unknown): string | undefined {
  return value === undefined ? undefined : JSON.stringify(value);
}
