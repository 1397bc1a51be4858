import { createHash } from "node:crypto";
import type { CheckpointDraft } from "../src/contract/checkpoint.js";

/** The parts of a draft that a case sets; the rest has defaults. */
export interface DraftParts extends Partial<Omit<CheckpointDraft, "taskId" | "id" | "payload" | "sizeBytes">> {
  /** The payload's body. A text must be exactly as `JSON.stringify` writes it. */
  readonly body?: string | Uint8Array;
}

/** An appended draft with its sequence. */
export interface Appended extends CheckpointDraft {
  readonly sequence: number;
}

/** Makes a valid draft, as the manager would. Drafts with different ids have different payloads. */
export function draft(taskId: string, id: string, parts: DraftParts = {}): CheckpointDraft {
  const { body = JSON.stringify({ taskId, id }), ...fields } = parts;
  return {
    taskId,
    id,
    createdAt: "2026-01-02T03:04:05.678Z",
    status: "running",
    stateVersion: 1,
    ...fields,
    sizeBytes: Buffer.byteLength(body),
    payload: { encoding: typeof body === "string" ? "json" : "bytes", body, sha256: sha256Of(body) },
  };
}

/** Makes `count` drafts of one task, with the ids `c1`, `c2`, … */
export function drafts(taskId: string, count: number): CheckpointDraft[] {
  return Array.from({ length: count }, (_, index) => draft(taskId, `c${index + 1}`));
}

/** Makes a draft with every field. */
export function fullDraft(taskId: string, id: string): CheckpointDraft {
  return draft(taskId, id, {
    createdAt: "2026-01-02T03:04:06.007Z",
    stage: "validation-gate-2",
    label: "After the second gate",
    parentId: "the-one-before",
    metadata: { attempt: 2, tags: ["a", "b"], nested: { deep: { list: [1, null, true, ""] } }, none: null, empty: {} },
    status: "failed",
    error: {
      message: "The gate is shut",
      name: "GateError",
      code: "E_GATE",
      stack: "GateError: The gate is shut\n    at gate",
    },
    dueAt: "2026-01-02T04:05:07.008Z",
    stateVersion: 7,
  });
}

/** Returns the lower-case hexadecimal SHA-256 of the bytes, or of the text's UTF-8 bytes. */
export function sha256Of(body: string | Uint8Array): string {
  return createHash("sha256").update(body).digest("hex");
}
