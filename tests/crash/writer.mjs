// Saves in turn to a task that all processes share and to many others, and appends events to their logs: node
// writer.mjs <adapter> <folder> <name> <histories>. Prints `<task> <id> <sequence>` once a save is acknowledged.
// Continues until its stdin ends or it is killed.
import { createHash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { recorded } from "../support/recorded.mjs";
import { openAdapter } from "./open-adapter.mjs";

const [, , kind, folder, name, histories] = process.argv;
const MANY = 5;

let isOver = false;
process.stdin.on("end", () => {
  isOver = true;
});
process.stdin.resume();

const adapter = recorded(await openAdapter(kind, folder), histories, name);
for (let number = 1; !isOver; number++) {
  const taskId = number % 2 === 0 ? "shared" : `many-${number % MANY}`;
  const id = `${name}-${number}`;
  const body = JSON.stringify({ of: id });
  const payload = { encoding: "json", body, sha256: createHash("sha256").update(body).digest("hex") };
  const createdAt = "2026-01-02T03:04:05.678Z";
  const draft = { taskId, id, createdAt, status: "running", stateVersion: 1, sizeBytes: body.length, payload };
  const isEvent = adapter.log !== undefined && number % 3 === 0;
  const event = { kind: "event", name: "sent", id, createdAt, payload };
  const sequence = await (isEvent ? adapter.log.append(taskId, [event]) : adapter.append(draft));
  // A write to a pipe is synchronous, so each acknowledged save is printed before the next one. It waits for a full
  // pipe.
  process.stdout.write(`${taskId} ${id} ${sequence}\n`);
  // SQLite takes no turn of the event loop unless it must wait, and the end of stdin needs a turn.
  await nextTurn();
}
await adapter.close();
