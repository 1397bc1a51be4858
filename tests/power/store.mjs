// @ts-check
// node store.mjs write <storage> <folder> <ledger> <seed>: saves, appends and removes at random until it is killed.
// Writes a line to the ledger before each call, and another line once the call is acknowledged.
// node store.mjs check <storage> <cuts>: compares the stores that power cuts have left with the ledgers, and appends to
// them.
import { createHash } from "node:crypto";
import { openSync, readFileSync, writeSync } from "node:fs";
import { basename } from "node:path";
import { openAdapter } from "../crash/open-adapter.mjs";
import { randomBy } from "./random.mjs";

/**
 * `adds`: the keys of the items that the call stores, in the order of their sequences.
 *
 * @typedef {{ taskId: string, adds: string[], removes: string[], isLazy: boolean }} Call
 * @typedef {{ call: string } & Call | { done: string, sequence?: number }} Line
 * @typedef {{ taskId: string, fate: "must" | "lazy" | "may" | "gone", batch: string[], sequence?: number, isRemoved?: true }} Item
 * @typedef {{ folder: string, what: string, before: string[], after: string[] }} Cut `before` and `after` are the
 * ledgers just before and after the cut.
 * @typedef {{ acknowledged: number, lazyLost: number, wrong: string[] }} Verdict
 */
const createdAt = "2026-01-02T03:04:05.678Z";
const [, , command, name = "", ...args] = process.argv;
const kind = /** @type {import("../crash/operations.js").StoreKind} */ (name);
if (command === "write") await writeTasks(args[0] ?? "", args[1] ?? "", randomBy(Number(args[2])));
else for (const cut of JSON.parse(readFileSync(args[0] ?? "", "utf8"))) console.log(JSON.stringify(await check(cut)));

/** @param {string} folder @param {string} path @param {(below: number) => number} random */
async function writeTasks(folder, path, random) {
  const adapter = await openAdapter(kind, folder);
  const ledger = openSync(path, "a");
  let calls = 0;
  const tasks = Array.from({ length: [1, 2, 8][random(3)] ?? 1 }, (_, at) => `${basename(path)}-${at}`);
  await Promise.all(tasks.map(writeTask));

  /** @param {string} taskId */
  async function writeTask(taskId) {
    /** @type {string[]} */
    const saved = [];
    /** @type {{ key: string, sequence: number }[]} */
    let steps = [];
    /** @param {string} call @param {Partial<Call>} what @param {() => Promise<number | void> | undefined} make */
    const made = async (call, what, make) => {
      writeSync(ledger, `${JSON.stringify({ call, taskId, adds: [], removes: [], isLazy: false, ...what })}\n`);
      const sequence = await make();
      writeSync(ledger, `${JSON.stringify({ done: call, sequence })}\n`);
      return Number(sequence);
    };
    for (;;) {
      calls += 1;
      const call = `${basename(path)}-${calls}`;
      const choice = random(100);
      if (choice < 8 && saved.length > 3) {
        const removes = saved.splice(random(saved.length), 1 + random(3));
        await made(call, { removes }, async () => void (await adapter.remove(taskId, removes)));
      } else if (choice < 12 && steps.length > 3) {
        const beforeSequence = steps[random(steps.length)]?.sequence ?? 0;
        const removes = steps.filter(({ sequence }) => sequence < beforeSequence).map(({ key }) => key);
        steps = steps.filter(({ sequence }) => sequence >= beforeSequence);
        const selection = /** @type {const} */ ({ kinds: ["step"], beforeSequence });
        await made(call, { removes }, async () => void (await adapter.log?.remove(taskId, selection)));
      } else {
        const adds = Array.from({ length: 1 + random(3) }, (_, at) => `${call}.${at}`);
        const recordKind = random(2) ? "step" : "event";
        const records = adds.map((key) => record(key, recordKind));
        const last = choice < 60 ? records.pop() && adds.at(-1) : undefined;
        const lazy = choice > 90;
        const sequence = await made(call, { adds, isLazy: lazy }, () =>
          last === undefined
            ? adapter.log?.append(taskId, records, {}, { lazy })
            : adapter.append(draft(taskId, last), {}, records.length > 0 ? { records } : {}),
        );
        if (last !== undefined) saved.push(last);
        const first = sequence - adds.length + 1;
        if (recordKind === "step")
          steps.push(...records.map((_, at) => ({ key: adds[at] ?? "", sequence: first + at })));
      }
    }
  }
}

/** @param {Cut} cut @returns {Promise<Verdict>} */
async function check({ folder, before, after }) {
  const { items, acknowledged } = expect(before, after);
  /** @type {string[]} */
  const wrong = [];
  const present = new Set();
  const adapter = await openAdapter(kind, folder);
  for (const taskId of new Set([...items.values()].map((item) => item.taskId))) {
    const query = /** @type {const} */ ({ taskId, order: "oldest" });
    const records = adapter.log?.read({ ...query, kinds: ["step", "event"] });
    /** @type {number[]} */
    const sequences = [];
    for (const found of [...(await all(adapter.read(query))), ...(await all(records ?? []))]) {
      const body = "payload" in found && "body" in found.payload ? String(found.payload.body) : "{}";
      const key = JSON.parse(body).of;
      const item = items.get(key);
      const isIts =
        item?.taskId === taskId && body === payloadOf(key).body && [undefined, found.sequence].includes(item.sequence);
      if (!isIts) wrong.push(`in ${taskId}: ${JSON.stringify(found).slice(0, 300)}, and not ${JSON.stringify(item)}`);
      present.add(key);
      sequences.push(found.sequence ?? 0);
    }
    const used = [...items.values()].filter((item) => item.taskId === taskId && /must|gone/.test(item.fate));
    const highest = Math.max(0, ...sequences, ...used.map(({ sequence = 0 }) => sequence));
    if (new Set(sequences).size < sequences.length) wrong.push(`${taskId} has a sequence twice`);
    const next = await adapter.append(draft(taskId, "after-the-cut"));
    if (next <= highest) wrong.push(`lost: ${taskId} has had ${highest}, and the next append got ${next}`);
  }
  for (const [key, { fate, batch, isRemoved }] of items) {
    if (fate === "must" && !present.has(key)) wrong.push(`lost: ${key}`);
    if (fate === "gone" && present.has(key)) wrong.push(`lost: the removal of ${key}`);
    const isPart = !present.has(key) && !isRemoved && batch.some((other) => present.has(other));
    if (/may|lazy/.test(fate) && isPart) wrong.push(`a part of a batch: ${batch}`);
  }
  for await (const finding of adapter.maintenance?.verify({ quick: false }) ?? []) {
    if (finding.kind !== "checked" && finding.kind !== "leftover") wrong.push(`verify: ${JSON.stringify(finding)}`);
  }
  await adapter.close();
  const lazyLost = [...items].filter(([key, { fate }]) => fate === "lazy" && !present.has(key)).length;
  return { acknowledged, lazyLost, wrong };
}

/**
 * Returns the expected items. A call that wasn't acknowledged before the cut may have taken effect. @param {string[]}
 * before @param {string[]} after
 */
function expect(before, after) {
  /** @type {Map<string, Item>} */
  const items = new Map();
  let acknowledged = 0;
  for (const [at, text] of after.entries()) {
    /** @type {Map<string, Call>} */
    const begun = new Map();
    const known = (before[at] ?? "").split("\n").length - 1;
    const lines = /** @type {Line[]} */ (
      text
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line))
    );
    for (const [number, line] of lines.entries()) {
      const call = "call" in line ? line : begun.get(line.done);
      if (call === undefined) throw new Error(`The ledger has no beginning of ${text}`);
      if ("call" in line) begun.set(line.call, line);
      if ("call" in line)
        for (const key of line.adds) items.set(key, { taskId: line.taskId, fate: "may", batch: line.adds });
      const isAcknowledged = "done" in line && number < known;
      if (isAcknowledged) acknowledged += 1;
      for (const [key, item] of items) {
        const index = call.adds.indexOf(key);
        if ("done" in line && line.sequence && index >= 0) item.sequence = line.sequence - call.adds.length + 1 + index;
        if (isAcknowledged && index >= 0 && item.fate === "may") item.fate = "lazy";
        // A durable write also makes the lazy records of its task durable.
        const isDurable = call.adds.length > 0 && !call.isLazy;
        if (isAcknowledged && isDurable && item.taskId === call.taskId && item.fate === "lazy") item.fate = "must";
        if (call.removes.includes(key)) Object.assign(item, { isRemoved: true, fate: isAcknowledged ? "gone" : "may" });
      }
    }
  }
  return { items, acknowledged };
}

/** @template T @param {AsyncIterable<T> | Iterable<T>} found */
async function all(found) {
  const items = [];
  for await (const item of found) items.push(item);
  return items;
}

/** Returns a payload. Half of it is the same in all payloads of the same size. @param {string} key */
function payloadOf(key) {
  const size = createHash("sha256").update(key).digest().readUInt16BE() % 4_000;
  const text = createHash("shake256", { outputLength: size }).update(key).digest("hex");
  const body = JSON.stringify({ of: key, same: "s".repeat(size), text });
  return { encoding: "json", body, sha256: createHash("sha256").update(body).digest("hex") };
}

/** @param {string} key @param {"step" | "event"} recordKind */
function record(key, recordKind) {
  return {
    kind: recordKind,
    name: "n",
    ...(recordKind === "event" && { id: key }),
    createdAt,
    payload: payloadOf(key),
  };
}

/** @param {string} taskId @param {string} id @returns {import("waymark/adapter").CheckpointDraft} */
function draft(taskId, id) {
  const payload = payloadOf(id);
  return { taskId, id, createdAt, status: "running", stateVersion: 1, sizeBytes: payload.body.length, payload };
}
