// node random-calls.mjs <storage> <schema> <seed>: saves, forks, removes and replaces at random until it is killed.
// Prints each call before it makes it, and a line once the call is done.
import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import { openStorage } from "waymark/adapters";
import { PostgresAdapter } from "waymark/adapters/postgres";

const [, , url = "", schema = "", seed = ""] = process.argv;
const storage = url.startsWith("postgres") ? new PostgresAdapter({ url, schema }) : openStorage(url);
const TASKS = ["one", "two"];

let state = (Number(seed) % 2_147_483_646) + 1;
/** Less than `below`, the same ones for the same seed. @param {number} below */
function random(below) {
  state = (state * 48_271) % 2_147_483_647;
  return state % below;
}

/** @type {Map<string, { id: string, body: string }[]>} */
const stored = new Map(TASKS.map((taskId) => [taskId, []]));
for (const taskId of TASKS) {
  for await (const found of storage.read({ taskId, order: "oldest" })) {
    if ("reason" in found) throw new Error(`${taskId} ${found.id}: ${found.reason}`);
    stored.get(taskId)?.push({ id: found.id, body: String(found.payload.body) });
  }
}
for (let step = 0; ; step++) {
  const call = chosen(step);
  if (call === undefined) continue;
  writeSync(1, `${JSON.stringify(call)}\n`);
  const [method, ...args] = call;
  // The first call is followed by its kind's arguments.
  await Reflect.apply(storage[method], storage, args);
  writeSync(1, "done\n");
}

/** A call, and what it changes in {@link stored}. @param {number} step */
function chosen(step) {
  const taskId = TASKS[random(2)] ?? "";
  const kept = stored.get(taskId) ?? [];
  const kind = random(100);
  const at = random(Math.max(1, kept.length));
  const found = kept[at];
  const id = `${seed}-${step}`;
  if (kind < 70 || found === undefined) {
    const body = next(kept.at(-1)?.body);
    kept.push({ id, body });
    return /** @type {const} */ (["append", draft(taskId, id, body)]);
  }
  if (kind < 78) {
    const other = taskId === "one" ? "two" : "one";
    stored.get(other)?.push({ id, body: found.body });
    return /** @type {const} */ ([
      "append",
      draft(other, id, found.body),
      {},
      { sharesWith: { taskId, id: found.id } },
    ]);
  }
  if (kind < 84) {
    const { payload } = draft(taskId, found.id, JSON.stringify({ replaced: found.body }));
    const { sha256 } = draft(taskId, found.id, found.body).payload;
    kept[at] = { id: found.id, body: payload.body };
    return /** @type {const} */ (["replacePayload", taskId, found.id, payload, sha256]);
  }
  if (kind < 99) {
    const gone = kept.splice(at, 1 + random(4)).map((one) => one.id);
    return /** @type {const} */ (["remove", taskId, gone]);
  }
  kept.length = 0;
  return /** @type {const} */ (["remove", taskId, "all"]);
}

/** The state after this one: one note more, another one changed, or something small. @param {string | undefined} body */
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
