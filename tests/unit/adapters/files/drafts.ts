import { createHash } from "node:crypto";
import { type CheckpointDraft, type StoredCheckpoint, seal } from "../../../../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../../../../src/contract/corrupt-record.js";

export interface DraftParts extends Partial<Omit<CheckpointDraft, "taskId" | "id" | "payload" | "sizeBytes">> {
  readonly body?: string | Uint8Array;
}

/** Makes a draft like the manager's. */
export function draft(taskId: string, id: string, parts: DraftParts = {}): CheckpointDraft {
  const { body = JSON.stringify({ of: id }), ...fields } = parts;
  return {
    taskId,
    id,
    createdAt: "2026-01-02T03:04:05.678Z",
    status: "running",
    stateVersion: 1,
    ...fields,
    sizeBytes: Buffer.byteLength(body),
    payload: { encoding: "json", body, sha256: sha256Of(body) },
  };
}

export function sha256Of(body: string | Uint8Array): string {
  return createHash("sha256").update(body).digest("hex");
}

/** Whether the manager would accept the record because its seal and digest match. */
export function isWhole(record: StoredCheckpoint): boolean {
  return seal(record) === record.seal && sha256Of(record.payload.body) === record.payload.sha256;
}

export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

/** Returns the ids in order, with `!` before the id of a corrupt record. */
export async function idsOf(items: AsyncIterable<{ readonly id: string } | CorruptRecord>): Promise<string[]> {
  return (await collect(items)).map((item) => (isCorrupt(item) ? `!${item.id ?? "?"}` : item.id));
}
