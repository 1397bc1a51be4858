import { isCorrupt } from "waymark/adapter";
import { requireTask } from "../checkpoints.js";
import type { QuerySession } from "../store.js";

/**
 * Returns the record that `@7` names, with its value; `undefined` if a checkpoint has that sequence, or nothing has.
 *
 * @throws {CheckpointError} The configuration can't open the record.
 */
export async function findRecord(session: QuerySession, task: string, id: string | undefined) {
  const [, sequence] = /^@(\d{1,15})$/.exec(id ?? "") ?? [];
  if (sequence === undefined || session.storage.log === undefined) return undefined;
  const taskId = await requireTask(session, task);
  const range = { afterSequence: Number(sequence) - 1, beforeSequence: Number(sequence) + 1 };
  for await (const header of session.storage.log.read({ taskId, order: "oldest", ...range, headersOnly: true })) {
    if (isCorrupt(header) || !("kind" in header)) return undefined;
  }
  for await (const record of (await session.configured()).records(taskId, range)) {
    if (record.kind !== "checkpoint") return record;
  }
  return undefined;
}
