// node random-calls.mjs <storage> <schema> <seed> <name> <histories>: makes random calls of a storage until it is
// killed, for two tasks of its own and for tasks that it shares with other processes. Prints each call before making
// it, and then its result, except reads and calls of leased tasks, which only the history checks.
import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import { openStorage } from "waymark/adapters";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { recorded } from "../support/recorded.mjs";
import { LeasedCalls } from "./leased-calls.mjs";

const [, , url = "", schema = "", seed = "", name = "", histories = ""] = process.argv;
const opened = url.startsWith("postgres") ? new PostgresAdapter({ url, schema }) : openStorage(url);
const storage = recorded(opened, histories, `${name}-${seed}`);
const { log } = storage;
const TASKS = [`${name}-one`, `${name}-two`];
/** Whether a removal isn't atomic: json-file removes one file after another. */
const losesFiles = url.startsWith("files:");
const KINDS = /** @type {const} */ (["step", "event", "chunk", "run", "mark"]);

let state = (Number(seed) % 2_147_483_646) + 1;
/** Returns a random number below `below`, which depends only on the seed. @param {number} below */
function random(below) {
  state = (state * 48_271) % 2_147_483_647;
  return state % below;
}

const leased = new LeasedCalls(storage, [...TASKS, "shared"], { random, record, draft });
/** @type {Map<string, { id: string, body: string, isTransient: boolean }[]>} */
const stored = new Map(TASKS.map((taskId) => [taskId, []]));
/** The events of each task. @type {Map<string, ReturnType<typeof record>[]>} */
const events = new Map(TASKS.map((taskId) => [taskId, []]));
for (const taskId of TASKS) {
  for await (const found of storage.read({ taskId, order: "oldest" })) {
    if ("reason" in found) throw new Error(`${taskId} ${found.id}: ${found.reason}`);
    const isTransient = found.metadata?.waymark?.transient === true;
    stored.get(taskId)?.push({ id: found.id, body: String(found.payload.body), isTransient });
  }
}
for (let step = 0; ; step++) {
  if (random(10) < 3) {
    await leased.call(`${name}-${seed}-x${step}`).catch(refusal);
    continue;
  }
  const call = choose(`${name}-${seed}-${step}`);
  writeSync(1, `${JSON.stringify(call)}\n`);
  const [method, ...args] = call;
  const [owner, verb] = method.startsWith("log.") ? [log, method.slice("log.".length)] : [storage, method];
  const result = await Reflect.apply(owner[verb], owner, args).catch(refusal);
  writeSync(1, `${JSON.stringify({ result: result ?? null })}\n`);
}

/** Returns the code of a refused condition. @param {unknown} error */
function refusal(error) {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code !== "CHECKPOINT_CONFLICT" && code !== "LEASE_LOST") throw error;
  return code;
}

/** Chooses a call, and makes its change in {@link stored}. @param {string} id @returns {[string, ...unknown[]]} */
function choose(id) {
  if (random(10) === 0) {
    if (log && random(2) === 0) return ["log.append", "shared", [record(id, "event")]];
    return ["append", draft("shared", id, '"shared"')];
  }
  const taskId = TASKS[random(2)] ?? "";
  return log && random(100) < 40 ? chooseLogCall(taskId, id) : chooseCall(taskId, id);
}

/** @param {string} taskId @param {string} id @returns {[string, ...unknown[]]} */
function chooseCall(taskId, id) {
  const kept = stored.get(taskId) ?? [];
  const kind = random(100);
  const at = random(Math.max(1, kept.length));
  const found = kept[at];
  if (kind < 70 || found === undefined) {
    const newest = kept.at(-1);
    const body = next(newest?.body);
    const isTransient = !losesFiles && random(4) === 0;
    const replaces = isTransient && newest?.isTransient ? newest.id : undefined;
    if (replaces !== undefined) kept.pop();
    kept.push({ id, body, isTransient });
    const metadata = isTransient && { metadata: { waymark: { transient: true, ...(replaces && { replaces }) } } };
    return ["append", { ...draft(taskId, id, body), ...metadata }, {}, { ...(replaces && { replaces }) }];
  }
  if (kind < 78) {
    const other = TASKS.find((own) => own !== taskId) ?? "";
    stored.get(other)?.push({ id, body: found.body, isTransient: false });
    return ["append", draft(other, id, found.body), {}, { sharesWith: { taskId, id: found.id } }];
  }
  if (kind < 84) {
    const { payload } = draft(taskId, found.id, JSON.stringify({ replaced: found.body }));
    const { sha256 } = draft(taskId, found.id, found.body).payload;
    kept[at] = { ...found, body: payload.body };
    return ["replacePayload", taskId, found.id, payload, sha256];
  }
  if (kind === 98 && storage.removePrefix) {
    for (const own of TASKS) stored.set(own, []);
    for (const own of TASKS) events.set(own, []);
    return ["removePrefix", `${name}-`];
  }
  if (kind < 99 || losesFiles) {
    const most = losesFiles ? 1 : 4;
    const gone = kept.splice(at, 1 + random(most)).map((one) => one.id);
    return ["remove", taskId, gone];
  }
  kept.length = 0;
  events.set(taskId, []);
  return ["remove", taskId, "all"];
}

/** @param {string} taskId @param {string} id @returns {[string, ...unknown[]]} */
function chooseLogCall(taskId, id) {
  const kept = stored.get(taskId) ?? [];
  const sent = events.get(taskId) ?? [];
  const kind = random(100);
  const former = sent[random(Math.max(1, sent.length))];
  if (kind < 10 && former !== undefined) return ["log.append", taskId, [former]];
  if (kind < 20) return ["log.remove", taskId, { kinds: [KINDS[random(5)], "mark"], name: `n${random(3)}` }];
  // The storage refuses it: its event is stored without a checkpoint.
  if (kind < 22 && former !== undefined) return ["append", draft(taskId, id, next("{}")), {}, { records: [former] }];
  const records = Array.from({ length: 1 + random(3) }, (_, at) => record(`${id}-${at}`, KINDS[random(5)] ?? "step"));
  sent.push(...records.filter((one) => one.kind === "event"));
  if (kind < 35) {
    const body = next(kept.at(-1)?.body);
    kept.push({ id, body, isTransient: false });
    return ["append", draft(taskId, id, body), {}, { records }];
  }
  const newest = kept.at(-1);
  if (kind < 45 && newest !== undefined) {
    const status = random(2) === 0 ? "paused" : "running";
    return ["setStatus", taskId, newest.id, { status }, {}, { records }];
  }
  const dueAt = random(6) === 0 ? "2026-02-01T00:00:00.000Z" : undefined;
  return ["log.append", taskId, records, condition(), { lazy: random(3) === 0, ...(dueAt && { dueAt }) }];
}

/** Returns a condition that a model with other sequences also refuses. */
function condition() {
  return [{ expectedSequence: 0 }, { noEventAfter: 0 }, { fencingToken: 7 }][random(12)] ?? {};
}

/** @param {string} id @param {(typeof KINDS)[number]} kind */
function record(id, kind) {
  const { createdAt, payload } = draft("", id, JSON.stringify({ of: id, text: "r".repeat(random(2_000)) }));
  return { kind, name: `n${random(3)}`, ...(kind === "event" && { id }), createdAt, payload };
}

/**
 * Returns the next state: with one more note and another note changed, or something small. @param {string | undefined}
 * body
 */
function next(body) {
  if (random(12) === 0) return JSON.stringify({ small: random(1000) });
  const before = JSON.parse(body ?? "{}");
  const notes = Array.isArray(before.notes) ? before.notes : Array.from({ length: 30 }, note);
  if (random(5) === 0) notes[random(notes.length)] = note();
  else notes.push(note());
  return JSON.stringify({ notes: notes.slice(-400) });
}

function note() {
  return Array.from({ length: 12 }, () => random(100_000).toString(36)).join(" ");
}

/** @param {string} taskId @param {string} id @param {string} body */
function draft(taskId, id, body) {
  const sha256 = createHash("sha256").update(body).digest("hex");
  const payload = { encoding: "json", body, sha256 };
  const createdAt = "2026-01-02T03:04:05.678Z";
  return { taskId, id, createdAt, status: "running", stateVersion: 1, sizeBytes: body.length, payload };
}
