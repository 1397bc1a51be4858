// Tests the page's queries on waiting runs, on events, and on the queue.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { encrypt } from "waymark";
import { worked } from "../waiting-tasks.js";
import { newPlace } from "../waymark.js";
import { served } from "./served.js";

const STORAGES = ["sqlite:checkpoints.db", "files:store", "tasks:store"];

async function placeOf(url?: string, options: Parameters<typeof newPlace>[1] = {}) {
  const place = await newPlace(url, options);
  onTestFinished(() => place.manager.close());
  return place;
}

it.each(STORAGES)("tells what a run waits for, how to answer it, and what was sent, in %s", async (url) => {
  const { cwd, manager } = await placeOf(url);
  await worked(manager, { "w/1": "waits", "w/2": "fails" });
  await manager.send("w/1", "note", new Date(0), { by: "ada" });
  const page = await served(url, { cwd });

  const { tasks } = await page.ask("tasks", { order: "taskId", offset: 0, limit: 10 });
  expect(tasks).toMatchObject([
    { taskId: "w/1", status: "waiting", why: 'waits for "approve"' },
    { taskId: "w/2", status: "failed" },
  ]);
  expect(await page.ask("events", { taskId: "w/1" })).toMatchObject({
    waits: [
      {
        kind: "event",
        name: "approve",
        command: expect.stringMatching(/^npx waymark send --wait \w{8} .* w\/1 approve '…'$/),
      },
    ],
    input: "waits",
    events: [{ name: "note", by: "ada", status: "pending", value: ["date", "1970-01-01T00:00:00.000Z"] }],
  });
  const { commands } = await page.ask("task", { taskId: "w/1" });
  expect(commands.map(({ action }) => action)).toEqual([
    "fork",
    "list",
    "show",
    "prune",
    "cancel",
    "export",
    "delete",
    "complete",
  ]);
  const { steps } = await page.ask("timeline", { taskId: "w/1" });
  expect(steps.at(-1)).toMatchObject({ title: "approve", status: "started", waitsFor: "event" });

  await manager.send("w/1", "approve");
  const answered = await page.ask("events", { taskId: "w/1" });
  expect(answered.waits).toEqual([
    { kind: "event", name: "approve", since: expect.any(String), key: expect.any(String), isAnswered: true },
  ]);
  expect((await page.ask("task", { taskId: "w/1" })).task).toMatchObject({
    status: "queued",
    why: '"approve" is answered; a worker or the next run continues it',
  });
  await worked(manager, { "w/1": "waits" });
  const ended = await page.ask("timeline", { taskId: "w/1" });
  const wait = ended.steps.find(({ title }) => title === "approve");
  // The last attempt ended the wait, which an earlier attempt began.
  const { run } = await page.ask("checkpoint", { taskId: "w/1", id: wait?.checkpointId ?? "" });
  for (const steps of [ended.steps, run?.steps ?? []]) {
    expect(steps.map(({ title, from, runAttempt }) => [title, from, runAttempt])).toEqual([
      ["plan", "storage", 1],
      ["approve", "ran", 2],
    ]);
  }
  expect(ended.attempts).toMatchObject([
    { attempt: 1, end: "waited" },
    { attempt: 2, end: "completed" },
  ]);
  const [first, second] = ended.attempts;
  const times = [wait?.startedAt, first?.lastSeenAt, second?.startedAt].map((at) => Date.parse(at ?? ""));
  expect(times).toEqual(times.toSorted((a, b) => a - b));
});

it("tells a wait that timed out from an answered one", async () => {
  const { cwd, manager } = await placeOf();
  await manager.enqueue("t");
  await manager.send("t", "approve");
  await manager.run("t", async (run) => {
    await run.waitFor("approve");
    await run.waitFor("note", { timeoutMs: 1 });
    await run.sleepUntil("pause", new Date(0));
  });
  const page = await served("sqlite:checkpoints.db", { cwd });
  const { steps } = await page.ask("timeline", { taskId: "t" });
  expect(steps.map(({ title, hasTimedOut }) => [title, hasTimedOut])).toEqual([
    ["approve", undefined],
    ["note", true],
    ["pause", undefined],
  ]);
});

it("answers a wait, cancels and puts back, with --write alone", async () => {
  const { cwd, manager } = await placeOf();
  await worked(manager, { "w/1": "waits", "w/2": "fails", "w/3": "waits" });
  const shown = await served("sqlite:checkpoints.db", { cwd });
  const changes = [
    ["send", { taskId: "w/1", name: "approve" }],
    ["cancel", { taskId: "w/3", reason: "late" }],
    ["retry", { taskId: "w/2" }],
  ] as const;
  for (const [name, request] of changes) {
    expect(await shown.refused(name, request)).toMatchObject({ status: 403, code: "READ_ONLY" });
  }
  expect(await manager.events("w/1")).toEqual([]);

  const page = await served("sqlite:checkpoints.db", { cwd, canWrite: true });
  const [{ key: wait = "" } = {}] = (await page.ask("events", { taskId: "w/1" })).waits;
  const answer = { taskId: "w/1", name: "approve", value: { ok: [true, null] }, wait };
  const sent = await page.ask("send", answer);
  expect(sent).toMatchObject({ isAwaited: true });
  expect(await page.refused("send", answer)).toMatchObject({ status: 409, code: "CHECKPOINT_CONFLICT" });
  const { sender } = await page.ask("session", {});
  expect(await manager.events("w/1")).toMatchObject([{ id: sent.id, value: { ok: [true, null] }, by: sender }]);
  expect(await page.refused("retry", { taskId: "w/2", from: "plann" })).toMatchObject({
    status: 409,
    message: expect.stringContaining(
      'has no recorded step "plann". Nothing was changed. Recorded steps: "plan", "build".',
    ),
  });
  expect(await page.refused("retry", { taskId: "w/2", from: "" })).toMatchObject({ status: 400 });
  expect(await page.ask("retry", { taskId: "w/2", from: "plan" })).toEqual({ retried: 1 });
  expect((await page.ask("checkpoint", { taskId: "w/2" })).run?.steps).toEqual([]);
  expect(await page.ask("cancel", { taskId: "w/3", reason: "late" })).toEqual({ cancelled: 1 });
  const { tasks } = await page.ask("tasks", { order: "taskId", offset: 0, limit: 10 });
  expect(tasks).toMatchObject([
    { taskId: "w/1", status: "queued" },
    { taskId: "w/2", status: "queued" },
    { taskId: "w/3", status: "cancelled", error: "late" },
  ]);
  const { commands, checkpoints } = await page.ask("task", { taskId: "w/3" });
  expect(checkpoints[0]).toMatchObject({ status: "failed", isCancelled: true });
  expect((await page.ask("timeline", { taskId: "w/3" })).marks.at(-1)).toMatchObject({ kind: "cancelled" });
  expect(commands.map(({ action }) => action)).not.toContain("retry");

  expect(await page.refused("send", { taskId: "w/3", name: "approve" })).toMatchObject({ status: 409 });
  expect(await page.refused("send", { taskId: "w", name: "approve" })).toMatchObject({ status: 404 });
  expect(await page.refused("send", { taskId: "w/1", name: "" })).toMatchObject({ status: 400 });
  expect(await page.refused("cancel", { taskId: "w/1", reason: "" })).toMatchObject({ status: 400 });
  expect(await page.refused("retry", { taskId: "w/3" })).toMatchObject({ status: 409, code: "RUN_CANCELLED" });
});

it("tells a watched task's signal, and the queue as it grows and shrinks", async () => {
  const { cwd, manager } = await placeOf();
  await worked(manager, { "w/1": "waits" });
  const page = await served("sqlite:checkpoints.db", { cwd });
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const task = page.live("watch-task", { taskId: "w/1" }, stop.signal);
  for await (const message of task) if (message.kind === "change") break;
  const again = page.live("watch-task", { taskId: "w/1" }, stop.signal);
  let changes = 0;
  for await (const message of again) {
    if (message.kind !== "change") continue;
    changes += 1;
    // The event has another name, so the task itself stays as it is.
    if (changes === 1) await manager.send("w/1", "note");
    if (changes === 2) break;
  }
  expect((await page.ask("events", { taskId: "w/1" })).events).toMatchObject([{ name: "note" }]);

  const lengths: (number | undefined)[] = [];
  for await (const message of page.live("watch-tasks", { visible: [], prefix: "w/" }, stop.signal)) {
    if (message.kind !== "change" || message.queue?.tasks === lengths.at(-1)) continue;
    lengths.push(message.queue?.tasks);
    if (lengths.length === 1) await manager.send("w/1", "approve");
    if (lengths.length === 2) await manager.cancel("w/1", "late");
    if (lengths.length === 3) break;
  }
  expect(lengths).toEqual([0, 1, 0]);
});

it("lists events without the key to their values and senders", async () => {
  const key = encrypt({ keys: { a: new Uint8Array(32) }, current: "a" });
  const { cwd, manager } = await placeOf("sqlite:checkpoints.db", { transforms: [key] });
  await worked(manager, { "w/1": "waits" });
  // No key, path or digest contains this name.
  await manager.send("w/1", "note", "secret", { by: "Ada Lovelace" });
  const config = join(cwd, "waymark.config.mjs");
  await writeFile(config, "export default {};");
  const page = await served("sqlite:checkpoints.db", { cwd, config });
  const found = await page.ask("events", { taskId: "w/1" });
  expect(found).toMatchObject({
    waits: [{ name: "approve" }],
    events: [{ name: "note", status: "pending" }],
    keyMissing: {},
  });
  expect(JSON.stringify(found)).not.toContain("Ada Lovelace");
  expect(JSON.stringify(found)).not.toContain("secret");
});
