import { hash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { CHECKPOINT_STATUSES, type PlannedCheckpoint, type RetentionPlan } from "waymark";
import { CommandError, ExitCode } from "./exit-code.js";
import { jsonText } from "./printable.js";

const FORMAT = "waymark-prune-plan-1";

/** Writes plans to a file, for {@link readPlanFile}. */
export async function writePlanFile(path: string, plans: readonly RetentionPlan[]): Promise<void> {
  try {
    await writeFile(path, `${jsonText({ format: FORMAT, sha256: digestOf(plans), plans }, 2)}\n`, { mode: 0o600 });
  } catch (cause) {
    throw new CommandError(
      ExitCode.failed,
      `The plan could not be written to ${path}: ${codeOf(cause)}. Nothing was removed.`,
      { cause },
    );
  }
}

/** @throws {CommandError} There is no such file, or it holds no plans. */
export async function readPlanFile(path: string): Promise<RetentionPlan[]> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    throw new CommandError(
      ExitCode.notFound,
      `The plan ${path} can't be read: ${codeOf(cause)}. Nothing was removed.`,
      { cause },
    );
  }
  const content = parsed(text);
  if (!isObject(content) || content["format"] !== FORMAT || !isArrayOf(content["plans"], isPlan)) {
    throw refused(path, 'is no whole plan of "waymark prune --plan-out"');
  }
  const { plans, sha256 } = content;
  // It was agreed to as it was: an altered one could remove what no policy ever would.
  if (digestOf(plans) !== sha256) throw refused(path, "was changed since it was made: its checksum doesn't hold");
  return plans;
}

function refused(path: string, why: string): CommandError {
  return new CommandError(ExitCode.damaged, `${path} ${why}. Nothing was removed; make the plan again.`);
}

/** JSON keeps the order of keys, so a plan that was read back gives the same text. */
function digestOf(plans: readonly RetentionPlan[]): string {
  return hash("sha256", JSON.stringify(plans), "hex");
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A plan whose writing was cut short: no plan, like any other file that holds none.
    return undefined;
  }
}

/** All of a plan that is used here, or shown. */
function isPlan(value: unknown): value is RetentionPlan {
  return (
    isObject(value) &&
    typeof value["taskId"] === "string" &&
    typeof value["plannedAt"] === "string" &&
    typeof value["keepBytes"] === "number" &&
    typeof value["removeBytes"] === "number" &&
    isObject(value["policy"]) &&
    isArrayOf(value["keep"], isPlanned) &&
    isArrayOf(value["remove"], isPlanned)
  );
}

function isPlanned(value: unknown): value is PlannedCheckpoint {
  if (!isObject(value) || !isObject(value["checkpoint"]) || !isArrayOf(value["reasons"], isText)) return false;
  const { id, sequence, sizeBytes, createdAt, status } = value["checkpoint"];
  return (
    isText(id) &&
    isText(createdAt) &&
    Number.isSafeInteger(sequence) &&
    Number.isSafeInteger(sizeBytes) &&
    CHECKPOINT_STATUSES.some((known) => known === status)
  );
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isArrayOf<Item>(value: unknown, isItem: (item: unknown) => item is Item): value is Item[] {
  return Array.isArray(value) && value.every(isItem);
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : String(error);
}
