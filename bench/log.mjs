// @ts-check
import { hash } from "node:crypto";
import { openBareStores } from "./bare-stores.mjs";
import { medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";

/** The lengths of a long log, and of a log that is read. */
const [LONG, READ] = [100_000, 10_000];
const ROUNDS = 400;
/** Warm-up rounds, in which V8 compiles the hot code, because a program that stores steps runs for hours. */
const WARMUP = 400;
const BATCH = 500;

/** @typedef {NonNullable<import("waymark").StorageAdapter["log"]>} TaskLog */
/** @typedef {Parameters<TaskLog["append"]>[1][number]} RecordDraft */

/** The limit for the time of an append, as a multiple of the bare append's time. */
const LIMITS = { full: 1.5, normal: 2.5, files: 2.5, postgres: 1.5 };

/**
 * Measures the append of a 1 KB record to a short and a long log against a bare insert or append of the same bytes, and
 * a read of a log against a read of bare rows.
 *
 * @param {string} folder
 */
export async function benchLog(folder) {
  for await (const store of openBareStores(folder, "log")) {
    const storage = store.open();
    await compare(store, storage.log);
    await storage.close();
  }
}

/**
 * @param {import("./bare-stores.mjs").BareStore} bare
 * @param {TaskLog} log
 */
async function compare({ kind, title, baseline, insert, readAll }, log) {
  await fill(log, "long", LONG);
  await fill(log, "short", 10);
  await fill(log, "read", READ);
  for (let number = 0; number < READ; number++) await insert(makeRecord(number).payload.body, "read");
  let number = 0;
  const append = async (/** @type {string} */ taskId) => void (await log.append(taskId, [makeRecord(++number)]));
  const appended = await medians(
    {
      bare: () => insert(makeRecord(++number).payload.body),
      short: () => append("short"),
      long: () => append("long"),
    },
    { rounds: ROUNDS, warmup: WARMUP },
  );
  const read = await medians(
    {
      bare: async () => {
        for (const body of await readAll("read")) checkBody(String(body));
      },
      ours: async () => {
        for await (const item of log.read({ taskId: "read", order: "oldest" })) {
          if ("kind" in item && "body" in item.payload) checkBody(String(item.payload.body));
        }
      },
    },
    { rounds: 15, warmup: 3 },
  );
  printHeading(`${title}, records of 1 KB`);
  const limit = LIMITS[kind];
  printRow({ what: `append: to ${baseline}`, measuredMs: appended.short, againstMs: appended.bare, limit });
  printRow({
    what: `append: to ${LONG.toLocaleString("en")} records, to 10`,
    measuredMs: appended.long,
    againstMs: appended.short,
    limit: 1.2,
  });
  printRow({
    what: `read ${READ.toLocaleString("en")}: to bare rows, two SHA-256 and JSON.parse each`,
    measuredMs: read.ours,
    againstMs: read.bare,
    limit: 2,
  });
}

/**
 * @param {TaskLog} log
 * @param {string} taskId
 * @param {number} count
 */
async function fill(log, taskId, count) {
  for (let number = 1; number <= count; number += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, count - number + 1) }, (_, index) => makeRecord(number + index));
    await log.append(taskId, batch, {}, { lazy: true });
  }
}

/**
 * Makes a step's record of 1 KB.
 *
 * @param {number} number
 * @returns {RecordDraft & { payload: { body: string } }}
 */
function makeRecord(number) {
  const body = JSON.stringify({
    name: `step ${number}`,
    attempts: 1,
    result: { text: `${number} `.padEnd(960, "result ") },
  });
  const payload = { encoding: "json", body, sha256: hash("sha256", body, "hex") };
  return {
    kind: "step",
    name: `step ${number}`,
    recordKey: `["g",1,"step ${number}",1,1]`,
    createdAt: "2026-01-02T03:04:05.678Z",
    payload,
  };
}

/**
 * Does a reader's work: a digest of the payload, a digest of a header's length, and parsing the value.
 *
 * @param {string} body
 */
function checkBody(body) {
  hash("sha256", body, "hex");
  hash("sha256", body.slice(0, 300), "hex");
  JSON.parse(body);
}
