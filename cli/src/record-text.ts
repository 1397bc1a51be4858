import type { CheckpointManager } from "waymark";
import { collectSteps, isCancelled, isRecord, type StepRecord } from "waymark/kit";
import { plainJson } from "./plain-json.js";
import { jsonText } from "./printable.js";
import { stepName } from "./run-steps.js";
import { timeText } from "./words.js";

/** An item of a log that is followed. `removed`: a policy removed records before they could be read. */
export type FollowedRecord =
  ReturnType<CheckpointManager["follow"]> extends AsyncIterable<infer Followed> ? Followed : never;
/** A record of a task's log that isn't a checkpoint. */
type LogEntry = Exclude<FollowedRecord, { readonly kind: "checkpoint" | "removed" }>;

/** How much of a value is shown. --json shows all of it. */
const SHOWN_UNITS = 100;

/** Describes a record in one line: `2026-11-21 10:00:05 @7 step model 2 · 3.1 s`. Not safe for the terminal yet. */
export function recordLine(record: FollowedRecord): string {
  if (record.kind === "removed") return `Records up to @${record.upToSequence} were removed before they could be read.`;
  const text = record.kind === "checkpoint" ? checkpointText(record) : entryText(record);
  return `${timeText(record.createdAt)} @${record.sequence} ${text}`;
}

/** Returns the step of a record, which is the step's end, its start or a milestone of `run.save`. */
export function stepOfRecord(record: LogEntry): StepRecord | undefined {
  return collectSteps([record], { status: "running", sequence: 0 }, true)[0]?.step;
}

/** `TypeError: ERR_INVALID_URL: no such host` */
export function failureText(error: unknown): string {
  if (!isRecord(error)) return valueText(error) ?? "";
  return [error["name"], error["code"], error["message"]].filter((part) => typeof part === "string").join(": ");
}

/** Returns a value as JSON, shortened; `undefined` if there is no value. */
export function valueText(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  const text = jsonText(plainJson(value));
  return text.length > SHOWN_UNITS ? `${text.slice(0, SHOWN_UNITS)}…` : text;
}

function checkpointText(checkpoint: FollowedRecord & { readonly kind: "checkpoint" }): string {
  const { status, label, stage, error } = checkpoint;
  const why = error && (isCancelled(checkpoint) ? error.message : failureText(error));
  const parts = [isCancelled(checkpoint) ? "cancelled" : status, label ?? stage, why];
  return `checkpoint ${parts.filter((part) => part !== undefined).join(" · ")}`;
}

function entryText(record: LogEntry): string {
  const { kind, name, value } = record;
  const step = stepOfRecord(record);
  if (step !== undefined) {
    const why = step.error === undefined ? "" : `: ${failureText(step.error)}`;
    const started = step.status === "started" && step.waitsFor === undefined;
    return started ? `step ${stepName({ ...step, status: "completed" })} · started` : `step ${stepName(step)}${why}`;
  }
  const fields = isRecord(value) ? value : {};
  if (kind === "run") {
    const { type, result, input, error, status } = fields;
    const detail = error === undefined ? valueText(result ?? input) : failureText(error);
    return ["run", type, status, detail].filter((part) => typeof part === "string").join(" ");
  }
  return [kind, name, valueText(value)].filter((part) => part !== undefined).join(" ");
}
