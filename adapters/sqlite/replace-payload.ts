import { isCorrupt } from "../../src/adapter.js";
import { type Payload, withPayload } from "../../src/checkpoint.js";
import { CheckpointCorruptError } from "../../src/errors.js";
import type { SqliteConnection } from "./connection.js";
import { checkpointOf } from "./rows.js";
import { SUMMARY_BY_ID, UPDATE_BODY, UPDATE_PAYLOAD } from "./statements.js";

/** What is to be replaced, and by what. */
export interface PayloadReplacement {
  readonly taskId: string;
  readonly id: string;
  readonly payload: Payload;
  readonly expectedSha256: string;
}

/**
 * See `StorageAdapter.replacePayload`. In one transaction.
 *
 * @param path - The database's, for messages.
 */
export function replacePayload(
  database: SqliteConnection,
  path: string,
  { taskId, id, payload, expectedSha256 }: PayloadReplacement,
): boolean {
  return database.atomically(() => {
    const row = database.one(SUMMARY_BY_ID, taskId, id);
    if (row === undefined) return false;
    const record = checkpointOf(taskId, row, path);
    if (isCorrupt(record)) {
      throw new CheckpointCorruptError(
        `Checkpoint ${id} of task ${JSON.stringify(taskId)} can't be read: ${record.reason} (${record.location}). ` +
          "Its payload was not replaced, and it was left untouched.",
        { cause: record.cause },
      );
    }
    if (record.payload.sha256 !== expectedSha256) return false;
    const { sizeBytes, seal } = withPayload(record, payload);
    database.run(UPDATE_PAYLOAD, sizeBytes, payload.encoding, payload.sha256, seal, row[0]);
    database.run(UPDATE_BODY, payload.body, row[0]);
    return true;
  });
}
