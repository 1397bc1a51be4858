// @ts-check
// The built decoders of bytes that others may have written, and the answers that they may return.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { JsonFileAdapter } from "../../adapters/files/json-file.js";
import { TaskFileAdapter } from "../../adapters/files/task-file.js";
import { CommandError } from "../../cli/src/exit-code.js";
import { readPlanFile } from "../../cli/src/prune/plan-file.js";
import { readExport } from "../../cli/src/records/stored-record.js";
import { checkConfig } from "../../config/config.js";
import { parsePlan } from "../../runners/src/oneshot/plan-file.js";
import { parsePrp } from "../../runners/src/prp/parse-prp.js";
import { RunnerError } from "../../runners/src/runner-error.js";
import { decodeJson, encodeJson } from "../../src/codec/json.js";
import { CheckpointError, CheckpointManager, gzip, UnsupportedOperationError } from "../../src/index.js";
import { toCheckpoint } from "../../systems/builds/rows.js";
import { parseJsonObject, UnreadableError as UnreadableSystemFile } from "../../systems/json-object.js";
import { CheckpointRepository } from "../../systems/oneshot/index.js";
import { parseCheckpointFile } from "../../systems/phase-checkpoints/checkpoint-file.js";
import { PrpCheckpointManager } from "../../systems/prp/index.js";

/**
 * @typedef {object} Decoder
 * @property {(bytes: Buffer) => unknown} decode - Throws only errors of `expected`. If a checksum covers the decoded
 * value,
 *   returns a text that an altered input can't produce.
 * @property {readonly Function[]} expected - Classes of errors.
 * @property {true} [isSealed] - Whether only values of the corpus may be returned.
 */

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };
const CONTEXT = { taskId: "t", id: "c1", stateVersion: 1, encoding: "json-tagged" };
const folder = mkdtempSync(join(tmpdir(), "waymark-fuzz-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

/** @param {Buffer} bytes @param {string[]} parts */
function put(bytes, ...parts) {
  const path = join(folder, ...parts);
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, bytes);
  return path;
}

/** Makes every call, even if others throw typed errors. @param {(() => unknown)[]} calls */
async function all(...calls) {
  for (const call of calls) {
    try {
      await call();
    } catch (error) {
      if (!(error instanceof CheckpointError)) throw error;
    }
  }
}

/** @type {Readonly<Record<string, Decoder>>} */
export const DECODERS = {
  "payload-json": {
    decode: (bytes) => void decodeJson("json", bytes.toString(), CONTEXT),
    expected: [CheckpointError],
  },
  "payload-json-tagged": {
    decode: (bytes) => void encodeJson(decodeJson("json-tagged", bytes.toString(), CONTEXT), 2 ** 26),
    expected: [CheckpointError],
  },
  gzip: {
    async decode(bytes) {
      const { length } = await gzip({ maxBytes: 2 ** 20 }).decode(bytes, CONTEXT);
      if (length > 2 ** 20) throw new Error("gzip returned more than it may");
    },
    expected: [CheckpointError],
  },
  "json-file": {
    async decode(bytes) {
      const root = join(folder, "json-file");
      put(bytes, "json-file", "t", "000000000001-c1.json");
      const manager = new CheckpointManager({ storage: new JsonFileAdapter({ path: root }), logger: SILENT });
      await all(
        () => manager.list("t"),
        () => manager.tasks(),
        () => manager.restore("t", "c1"),
      );
      return inspect(await manager.latest("t"), { depth: 20, maxArrayLength: 1000 });
    },
    expected: [CheckpointError],
    isSealed: true,
  },
  "task-file": {
    async decode(bytes) {
      const root = join(folder, "task-file");
      put(bytes, "task-file", "t", "checkpoints.json");
      const manager = new CheckpointManager({ storage: new TaskFileAdapter({ path: root }), logger: SILENT });
      await all(
        () => manager.list("t"),
        () => manager.tasks(),
        () => manager.latest("t"),
        () => manager.save("t", { added: true }),
        () => manager.latest("t"),
      );
    },
    expected: [CheckpointError],
  },
  export: {
    async decode(bytes) {
      const seals = [];
      const chunks = (async function* () {
        yield bytes.subarray(0, 100);
        yield bytes.subarray(100);
      })();
      for await (const { item } of readExport(chunks, { from: "it", outcome: () => "" })) seals.push(item.seal);
      return JSON.stringify(seals);
    },
    expected: [CommandError],
    isSealed: true,
  },
  "retention-plan": {
    async decode(bytes) {
      const plans = [];
      for await (const plan of readPlanFile(put(bytes, "plan.ndjson"))) plans.push(plan);
      return JSON.stringify(plans);
    },
    expected: [CommandError],
    isSealed: true,
  },
  config: {
    decode: (bytes) => checkConfig("it", parsedOr(bytes, {})),
    expected: [TypeError, RangeError, UnsupportedOperationError],
  },
  "oneshot-plan": {
    // The YAML library keeps half a kilobyte for each error, so many errors take a worker's time and memory.
    decode: (bytes) => void parsePlan(bytes.toString("utf8", 0, 16_384), "plan.yaml"),
    expected: [RunnerError],
  },
  "oneshot-feature": {
    async decode(bytes) {
      put(bytes, "oneshot", ".sdp", "checkpoints", "F01.json");
      const repository = new CheckpointRepository(join(folder, "oneshot"));
      await all(
        () => repository.load("F01", { force: true }),
        () => repository.list(),
      );
    },
    expected: [CheckpointError],
  },
  prp: {
    decode: (bytes) => void parsePrp(bytes.toString("utf8", 0, 65_536), "PRP.md"),
    expected: [RunnerError],
  },
  "prp-checkpoints": {
    async decode(bytes) {
      put(bytes, "prp", "artifacts", "t", "checkpoints.json");
      const manager = new PrpCheckpointManager(join(folder, "prp"), {}, { logger: SILENT });
      await all(
        () => manager.getLatestCheckpoint("t"),
        () => manager.listCheckpoints("t"),
        () => manager.hasCheckpoint("t"),
      );
    },
    expected: [CheckpointError],
  },
  "phase-checkpoint": {
    decode: (bytes) => void parseCheckpointFile(parseJsonObject(bytes)),
    expected: [UnreadableSystemFile],
  },
  "builds-row": {
    decode(bytes) {
      const text = bytes.toString();
      toCheckpoint(["c1", "b", "2026-01-01 00:00:00", text, 1, text], "b.db");
      toCheckpoint([text, text, text, "[]", 1, "{}"], "b.db");
    },
    expected: [],
  },
};

/**
 * Returns the reason why the decoder may not return its answer; `undefined` if it may.
 *
 * @param {string} name
 * @param {Buffer} bytes
 * @param {ReadonlySet<unknown>} known - The values that the decoder returns for the corpus.
 */
export async function wrongWith(name, bytes, known) {
  const { decode, expected, isSealed } = decoderOf(name);
  let given;
  try {
    given = await decode(bytes);
  } catch (error) {
    const isOverflow = error instanceof RangeError && /call stack|string length|Array buffer/i.test(error.message);
    if (!isOverflow && expected.some((type) => error instanceof type)) return undefined;
    return error instanceof Error ? `${error.name}: ${error.message}\n${error.stack}` : `it threw ${String(error)}`;
  }
  if (!isSealed || known.has(given)) return undefined;
  return `it returned a value that its checksum should have refused: ${String(given).slice(0, 500)}`;
}

/** @param {string} name */
export function decoderOf(name) {
  const decoder = DECODERS[name];
  if (decoder === undefined)
    throw new Error(`There is no decoder ${name}; there are ${Object.keys(DECODERS).join(", ")}.`);
  return decoder;
}

/** @param {Buffer} bytes @param {unknown} otherwise */
function parsedOr(bytes, otherwise) {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return otherwise;
  }
}
