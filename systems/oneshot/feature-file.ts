import { hash } from "node:crypto";
import {
  decodeText,
  type EmbeddedRecord,
  embedDraft,
  isJsonObject,
  parseHead,
  parseObject,
} from "../../adapters/files/sealed-record.js";
import { UnreadableError } from "../../adapters/files/stored-file.js";
import { type JsonObject, summaryOf } from "../../src/contract/checkpoint.js";
import { OneshotFileSchema } from "./schema.js";

/**
 * A feature's file: the spec's keys, which are the checkpoint's state, and under `waymark.record` what the core keeps
 * besides. Without that key the file is another program's, or was edited by hand: it is taken as it stands.
 *
 * ```
 * { "feature_id": "F01", …, "last_update": "…", "waymark": { …, "record": { "id": "…", "sequence": 7, …, "seal": "…" } } }
 * ```
 *
 * @throws {UnreadableError}
 */
export function parseFeatureFile(bytes: Uint8Array): EmbeddedRecord {
  const { waymark, ...fields } = parseObject(decodeText(bytes));
  if (waymark === undefined) return adopted(fields);
  if (!isJsonObject(waymark)) throw new UnreadableError("its waymark key holds no object");
  const { record, ...run } = waymark;
  const state = Object.keys(run).length === 0 ? fields : { ...fields, waymark: run };
  if (record === undefined) return adopted(state);
  if (!isJsonObject(record)) throw new UnreadableError("its waymark.record holds no object");
  const { feature_id: taskId, status } = checked(state);
  const head = parseHead({ ...record, taskId }, { ...record, status });
  const bodyText = JSON.stringify(state);
  if (hash("sha256", bodyText, "hex") !== head.payload.sha256) {
    throw new UnreadableError("it fails its checksum: something of it was changed");
  }
  return { head, bodyText };
}

/** The file as it is written. */
export function renderFeatureFile({ head, bodyText }: EmbeddedRecord): Buffer {
  // These two stand in the spec's own fields.
  const { taskId: _taskId, status: _status, ...summary } = summaryOf(head);
  const { encoding, sha256 } = head.payload;
  const { waymark, ...fields } = parseObject(bodyText);
  const run = isJsonObject(waymark) ? waymark : {};
  const file = { ...fields, waymark: { ...run, record: { ...summary, encoding, sha256, seal: head.seal } } };
  return Buffer.from(`${JSON.stringify(file, undefined, 2)}\n`);
}

function adopted(state: JsonObject): EmbeddedRecord {
  const { feature_id: taskId, status, last_update: lastUpdate } = checked(state);
  const body = JSON.stringify(state);
  const sha256 = hash("sha256", body, "hex");
  const draft = {
    taskId,
    // The same at each read, and another one where the content is another.
    id: `adopted-${sha256.slice(0, 32)}`,
    createdAt: lastUpdate.toISOString(),
    status,
    stateVersion: 1,
    sizeBytes: Buffer.byteLength(body),
    payload: { encoding: "json", body, sha256 },
  };
  return embedDraft(draft)(1);
}

function checked(state: JsonObject) {
  const { success, data, error } = OneshotFileSchema.safeParse(state);
  if (success) return data;
  const issues = error.issues.map(({ path, message }) =>
    path.length === 0 ? message : `${path.join(".")}: ${message}`,
  );
  throw new UnreadableError(`it is no checkpoint of a feature (${issues.join("; ")})`, { cause: error });
}
