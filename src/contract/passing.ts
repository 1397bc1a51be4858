import type { CheckpointSummary, JsonObject } from "./checkpoint.js";
import { isJsonObject } from "./parse-summary.js";

/** The key of a checkpoint's metadata that is reserved: what Waymark itself notes of the checkpoint. */
export const NOTE_KEY = "waymark";

/**
 * Whether a checkpoint is a passing one: an auto-save, for example, which the next auto-save replaces. All others are
 * milestones, which somebody asked for. A completed or failed one is a milestone however it was saved: somebody said so, and
 * its error must stay.
 */
export function isPassing({ metadata, status }: Pick<CheckpointSummary, "metadata" | "status">): boolean {
  return status !== "completed" && status !== "failed" && noteIn(metadata)?.["passing"] === true;
}

/** The id of the checkpoint that a passing one took the place of; `undefined` if there was none. */
export function replacedBy({ metadata }: Pick<CheckpointSummary, "metadata">): string | undefined {
  const id = noteIn(metadata)?.["replaces"];
  return typeof id === "string" ? id : undefined;
}

/** The metadata of a passing checkpoint. @param replaces - The id of the one whose place it takes. */
export function passingMetadata(replaces: string | undefined): JsonObject {
  return { [NOTE_KEY]: { passing: true, ...(replaces === undefined ? undefined : { replaces }) } };
}

function noteIn(metadata: JsonObject | undefined): JsonObject | undefined {
  const note = metadata?.[NOTE_KEY];
  return isJsonObject(note) ? note : undefined;
}
