// Tests unusual names, damage, missing keys, and storages that change while they are watched.
import { readdir, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { encrypt } from "waymark";
import { openStorage } from "waymark/adapters";
import type { TaskMessage, TasksMessage } from "../../../cli/src/ui/api-tasks.js";
import { newPlace } from "../waymark.js";
import { served } from "./served.js";

const NAMES = [
  "<script>alert(1)</script>",
  "control \u0000\u0007\u001b[31m characters\r\n",
  "x".repeat(512),
  "😀 \ufffd \u2028",
  "right \u202e to left",
  "__proto__",
  "../../etc/passwd",
  "$(reboot) `id` 'quoted' \"twice\"",
  "--force",
  "@latest",
];

it("returns every name unchanged", async () => {
  const { cwd, manager } = await newPlace("files:store");
  for (const name of NAMES) {
    await manager.save(name, { [name]: name }, { stage: name, label: name });
    await manager.save(name, { [name]: [name] }, { stage: name, label: name });
  }
  await manager.close();
  const page = await served("files:store", { cwd, canWrite: true });

  const { tasks } = await page.ask("tasks", { order: "recent", offset: 0, limit: 100 });
  expect(tasks.map(({ taskId }) => taskId).sort()).toEqual([...NAMES].sort());
  for (const taskId of NAMES) {
    expect(await page.ask("task", { taskId })).toMatchObject({ task: { taskId, newest: { stage: taskId } } });
    const found = await page.ask("checkpoint", { taskId });
    expect(found.state).toEqual(["object", [[taskId, ["array", [taskId], 0]]], 0]);
    for (const { text } of found.commands) expect(text).toMatch(/^npx waymark [\x20-\x7e\u00a0-\uffff]+$/);
    const { id } = found.checkpoint;
    expect((await page.ask("search", { taskId, id, text: taskId })).found).not.toHaveLength(0);
    expect(await page.ask("diff", { taskId, to: id })).toMatchObject({ changes: [{ path: [taskId] }] });
    const { taskId: copy } = await page.ask("fork", { taskId, id, newTaskId: `${taskId.slice(0, 500)} copy` });
    expect(await page.ask("delete", { taskId: copy })).toMatchObject({ removed: 1 });
  }
});

it("returns lone surrogates of a state, and finds no task with such a name", async () => {
  const { cwd, manager } = await newPlace();
  await manager.save("build-1", { "\ud800": "\udfff" });
  await manager.close();
  const page = await served("sqlite:checkpoints.db", { cwd });
  expect((await page.ask("checkpoint", { taskId: "build-1" })).state).toEqual(["object", [["\ud800", "\udfff"]], 0]);
  expect(await page.refused("task", { taskId: "\ud800" })).toMatchObject({ status: 404 });
  expect(await page.refused("checkpoint", { taskId: "build-1", id: "\ud800" })).toMatchObject({ status: 404 });
});

it("shows what is damaged, and all that isn't, and repairs it", async () => {
  const { cwd, manager } = await newPlace("files:store");
  for (const n of [1, 2, 3]) await manager.save("hurt", { n });
  await manager.save("whole", {});
  await manager.close();
  const folder = join(cwd, "store", "hurt");
  const newest = (await readdir(folder))
    .filter((name) => name.endsWith(".json"))
    .sort()
    .at(-1)!;
  await truncate(join(folder, newest), 20);
  const page = await served("files:store", { cwd, canWrite: true });

  const { tasks, damage } = await page.ask("tasks", { order: "taskId", offset: 0, limit: 10 });
  expect(damage).toHaveLength(1);
  expect(tasks).toMatchObject([
    { taskId: "hurt", newest: { sequence: 2 }, damage: [{ taskId: "hurt", sequence: 3 }] },
    { taskId: "whole", damage: [] },
  ]);
  expect(await page.ask("counts", {})).toMatchObject({ damaged: 1 });
  const task = await page.ask("task", { taskId: "hurt" });
  expect([task.checkpoints.map(({ sequence }) => sequence), task.damage.length]).toEqual([[2, 1], 1]);
  expect(await page.ask("timeline", { taskId: "hurt" })).toMatchObject({
    saves: [
      [1, expect.any(Number), 7],
      [2, expect.any(Number), 7],
    ],
    damage: [{}],
  });
  expect(await page.ask("checkpoint", { taskId: "hurt" })).toMatchObject({ checkpoint: { sequence: 2 } });
  expect(
    await page.refused("checkpoint", { taskId: "hurt", id: newest.replace(/^\d+-(.*)\.json$/, "$1") }),
  ).toMatchObject({
    status: 422,
    code: "CHECKPOINT_CORRUPT",
  });
  const messages = [];
  for await (const message of page.live("verify", {})) messages.push(message);
  expect(messages.at(-1)).toMatchObject({ kind: "done", findings: [{ kind: "damaged", taskId: "hurt" }], total: 1 });
  expect((await page.ask("repair-plan", {})).steps).toMatchObject([{ action: "quarantined" }]);
  expect((await page.ask("storage", {})).quarantine).toBeUndefined();
  expect((await page.ask("repair", {})).steps).toMatchObject([{ action: "quarantined" }]);
  expect((await page.ask("storage", {})).quarantine).toMatchObject({
    total: 1,
    records: [{ taskId: "hurt", sequence: 3 }],
  });
});

it("lists the quarantine of a database", async () => {
  const { cwd, manager } = await newPlace();
  await manager.save("hurt", { n: 1 });
  await manager.save("hurt", { n: 2 });
  await manager.close();
  const { default: Database } = await import("better-sqlite3");
  const database = new Database(join(cwd, "checkpoints.db"));
  database.exec("UPDATE waymark_checkpoints SET label = 'changed' WHERE sequence = 2");
  database.close();
  const page = await served("sqlite:checkpoints.db", { cwd, canWrite: true });
  expect((await page.ask("storage", {})).quarantine).toMatchObject({ total: 0 });
  await page.ask("repair", {});
  expect((await page.ask("storage", {})).quarantine).toMatchObject({
    total: 1,
    records: [{ taskId: "hurt", sequence: 2, at: expect.stringMatching(/^\d{4}-/) }],
  });
});

it("reports that a key is missing, and shows the rest", async () => {
  const { cwd, manager } = await newPlace("sqlite:checkpoints.db", {
    transforms: [encrypt({ keys: { k1: Buffer.alloc(32, 7) }, current: "k1" })],
  });
  await manager.run("secret", async (run) => run.step("model", () => "a secret"));
  await manager.close();
  const page = await served("sqlite:checkpoints.db", { cwd });
  const found = await page.ask("checkpoint", { taskId: "secret" });
  expect(found).toMatchObject({
    checkpoint: { status: "completed" },
    keyMissing: { message: expect.stringContaining("encrypt") },
  });
  expect(found).not.toHaveProperty("state");
  expect(await page.ask("timeline", { taskId: "secret" })).toMatchObject({ steps: [], keyMissing: {} });
  const { id } = found.checkpoint;
  expect(await page.refused("state", { taskId: "secret", id, path: [] })).toMatchObject({
    status: 422,
    message: expect.stringContaining("waymark.config.js"),
  });
});

it("shows a redacted value as it was stored", async () => {
  const { cwd, manager } = await newPlace("sqlite:checkpoints.db", { redact: { paths: ["state.token"] } });
  await manager.save("build-1", { token: "s3cret", n: 1 });
  await manager.close();
  const page = await served("sqlite:checkpoints.db", { cwd });
  const answer = JSON.stringify(await page.ask("checkpoint", { taskId: "build-1" }));
  expect(answer).toContain("[redacted]");
  expect(answer).not.toContain("s3cret");
});

it("tells changes of tasks while it is watched", async () => {
  const { cwd, manager } = await newPlace();
  await manager.save("old", {}, { stage: "plan" });
  const page = await served("sqlite:checkpoints.db", { cwd });
  const watch = watched(page.live("watch-tasks", { visible: ["old"] }));
  expect(await watch.next()).toMatchObject({ kind: "open" });
  expect(await watch.next()).toMatchObject({ kind: "change", tasks: [{ taskId: "old" }], gone: [] });

  await manager.save("new", {});
  expect(await watch.next()).toMatchObject({ tasks: [{ taskId: "new", status: "interrupted" }] });
  await manager.complete("old");
  expect(await watch.next()).toMatchObject({ tasks: [{ taskId: "old", status: "completed" }] });
  const lease = await manager.lease("new", { holder: "worker-1" });
  expect(await watch.next()).toMatchObject({
    tasks: [{ taskId: "new", status: "running", runner: { holder: "worker-1" } }],
  });
  await lease.release();
  const released = await watch.next();
  expect(released).toMatchObject({ tasks: [{ taskId: "new", status: "interrupted" }] });
  expect(JSON.stringify(released)).not.toContain('"runner"');
  await manager.removeTask("old");
  expect(await watch.next()).toMatchObject({ tasks: [], gone: ["old"] });
  await manager.close();
});

it("tells only what its filter asks for, and what has left it", async () => {
  const { cwd, manager } = await newPlace();
  await manager.save("a-1", {});
  await manager.save("b-1", {});
  const page = await served("sqlite:checkpoints.db", { cwd });
  const filter = { prefix: "a-", status: ["interrupted"] as const };
  const watch = watched(page.live("watch-tasks", { ...filter, visible: ["a-1"] }));
  expect(await watch.next()).toMatchObject({ kind: "open" });
  expect(await watch.next()).toMatchObject({ tasks: [{ taskId: "a-1" }] });
  await manager.save("b-1", {});
  await manager.complete("a-1");
  expect(await watch.next()).toMatchObject({ tasks: [], gone: ["a-1"] });
  await manager.close();
});

it("follows one task through its saves, its removal and its return", async () => {
  const { cwd, manager } = await newPlace("files:store");
  await manager.save("build-1", { n: 1 });
  const page = await served("files:store", { cwd });
  const watch = watched(page.live("watch-task", { taskId: "build-1" }));
  expect(await watch.next()).toMatchObject({ kind: "open" });
  expect(await watch.next()).toMatchObject({ kind: "change", checkpoints: [{ sequence: 1 }] });
  await manager.save("build-1", { n: 2 });
  expect(await watch.next()).toMatchObject({
    kind: "change",
    task: { count: 2 },
    checkpoints: [{ sequence: 2 }, { sequence: 1 }],
  });
  await manager.removeTask("build-1");
  expect(await watch.next()).toMatchObject({ kind: "gone" });
  await manager.save("build-1", { n: 1 });
  expect(await watch.next()).toMatchObject({ kind: "change", checkpoints: [{ sequence: 1 }] });
  await manager.close();
});

it.each(["sqlite:new.db", "files:new", "tasks:new"])("waits for the first save to %s", async (url) => {
  const { cwd, manager } = await newPlace(url);
  const page = await served(url, { cwd });
  expect(await page.ask("counts", {})).toMatchObject({ tasks: 0, damaged: 0 });
  expect(await page.ask("storage", {})).toMatchObject({ bytesOnDisk: 0 });
  expect(await readdir(cwd)).toEqual([]);
  const watch = watched(page.live("watch-tasks", { visible: [] }));
  expect(await watch.next()).toMatchObject({ kind: "open" });
  await manager.save("build-1", {});
  expect(await watch.next()).toMatchObject({ kind: "change" });
  expect(await page.ask("counts", {})).toMatchObject({ tasks: 1 });
  await manager.close();
});

it("reports that a storage fails, and continues once it works again", async () => {
  const { cwd, manager } = await newPlace("sqlite:checkpoints.db");
  await manager.save("build-1", {});
  await manager.close();
  const page = await served("sqlite:checkpoints.db", { cwd });
  const watch = watched(page.live("watch-tasks", { visible: ["build-1"] }));
  expect(await watch.next()).toMatchObject({ kind: "open" });
  expect(await watch.next()).toMatchObject({ kind: "change" });
  // The page may close its connection at the same time, which removes the -wal file.
  for (const suffix of ["", "-wal", "-shm"]) await rm(join(cwd, `checkpoints.db${suffix}`), { force: true });
  await writeFile(join(cwd, "checkpoints.db"), "no database at all, and longer than a header");
  const failed = await watch.next();
  expect(["failed", "change"]).toContain(failed?.kind);
  await rm(join(cwd, "checkpoints.db"));
  const storage = openStorage("sqlite:checkpoints.db", { relativeTo: cwd });
  onTestFinished(() => storage.close());
  const { manager: again } = await newPlaceAt(cwd);
  await again.save("build-2", {});
  for (;;) {
    const message = await watch.next();
    if (JSON.stringify(message).includes("build-2")) break;
  }
  await again.close();
});

async function newPlaceAt(cwd: string) {
  const { CheckpointManager } = await import("waymark");
  return { manager: new CheckpointManager({ storage: openStorage("sqlite:checkpoints.db", { relativeTo: cwd }) }) };
}

/** The messages of a watch, one at a time. The test's end closes it. */
function watched<Message extends TasksMessage | TaskMessage>(messages: AsyncGenerator<Message, void, void>) {
  onTestFinished(async () => void (await messages.return()));
  return { next: async () => (await messages.next()).value };
}
