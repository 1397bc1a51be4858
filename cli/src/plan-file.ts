import { hash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import type { PlannedCheckpoint, RetentionPlan } from "waymark";
import { CHECKPOINT_STATUSES } from "waymark/adapter";
import { CommandError, ExitCode } from "./exit-code.js";
import { jsonText } from "./printable.js";

const FORMAT = "waymark-prune-plan-1";

/**
 * Writes plans to a file, for {@link readPlanFile}.
 *
 * @throws {CommandError} It can't be written, or there is a file and `replace` is false.
 */
export async function writePlanFile(path: string, plans: readonly RetentionPlan[], replace: boolean): Promise<void> {
  const text = `${jsonText({ format: FORMAT, sha256: digestOf(plans), plans }, 2)}\n`;
  try {
    await writeFile(path, text, { mode: 0o600, flag: replace ? "w" : "wx" });
  } catch (cause) {
    if (codeOf(cause) === "EEXIST") {
      throw new CommandError(
        ExitCode.conflict,
        `${path} is there already, and was left as it is. Name another file, or replace it with --force. Nothing was removed.`,
        { cause },
      );
    }
    throw new CommandError(
      ExitCode.failed,
      `The plan could not be written to ${path}: ${codeOf(cause)}. Nothing was removed.`,
      { cause },
    );
  }
}

/** @throws {CommandError} There is no such file, or it has no plans. */
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
    throw refused(path, 'is not a whole plan of "waymark prune --plan-out"');
  }
  const { plans, sha256 } = content;
  // Somebody agreed to the plan as it was. A changed one could remove what no policy would.
  if (digestOf(plans) !== sha256) throw refused(path, "was changed after it was made: its checksum doesn't match");
  return plans;
}

function refused(path: string, why: string): CommandError {
  return new CommandError(ExitCode.damaged, `${path} ${why}. Nothing was removed; make the plan again.`);
}

/** JSON keeps the order of keys, so a plan that was read back has the same text. */
function digestOf(plans: readonly RetentionPlan[]): string | undefined {
  try {
    return hash("sha256", JSON.stringify(plans), "hex");
  } catch (error) {
    // It nests deeper than the stack allows, so this program didn't write it.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A plan that was cut short while it was written, or another file.
    return undefined;
  }
}

/** Checks all parts of a plan that are used or shown. */
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
