import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { StorageAdapter } from "waymark";
import type { CheckpointDraft } from "waymark/adapter";
import { withLock } from "../../../../adapters/files/lock.js";
import { record, requireLog } from "../../../../conformance/records.js";
import type { ClaimedTask } from "../../../../src/contract/task-queue.js";
import { NEVER } from "../../../../src/contract/transient.js";
import { draft } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const CALLER = fileURLToPath(new URL("../../../fixtures/files/caller.mjs", import.meta.url));
const LONG_MS = 600_000;
/** A time after which a changed folder isn't read again. */
const SETTLED_MS = 5_000;
/** The longest tick of a file system's clock. */
const TICK_MS = 2_000;
const NOON = "2026-01-02T12:00:00.000Z";
const EVENING = "2026-01-02T18:00:00.000Z";

const stores = {
  "json-file": {
    make: newJsonStore,
    url: "files",
    newer: ["000000000002-newer.json", '{"waymark":2,"what":"ever"}\n'],
  },
  "task-file": {
    make: newTaskStore,
    url: "tasks",
    newer: ["checkpoints.json", '{"version":"2.0","checkpoints":[\n]}\n'],
  },
} as const;

describe.each(Object.entries(stores))("a worker's look at %s tasks", (kind, { make, url, newer }) => {
  it("finds a task once its time has come", async () => {
    const { adapter, due, settle } = await queueOn(make);
    await adapter.append(waiting("t", EVENING));
    settle();
    expect(await due(NOON)).toEqual([]);
    expect(await due(EVENING)).toEqual(["t"]);
  });

  it("finds a task that another process has saved or changed since", async () => {
    const { root, adapter, due, settle } = await queueOn(make);
    const elsewhere = (method: string, ...args: unknown[]) =>
      promisify(execFile)(process.execPath, [CALLER, kind, root, method, JSON.stringify(args)]);
    await adapter.append(waiting("t", NEVER));
    settle();
    expect(await due(NOON)).toEqual([]);
    await Promise.all([elsewhere("append", ofRun("t", { id: "c2" })), elsewhere("append", ofRun("u"))]);
    expect(await due(NOON)).toEqual(["t", "u"]);
    settle();
    await elsewhere("setStatus", "u", "c1", { status: "completed" });
    expect(await due(NOON)).toEqual(["t"]);
    settle();
    await elsewhere("remove", "t", ["c2"]);
    expect(await due(NOON)).toEqual([]);
  });

  it("finds a task that a record made due, which leaves its folder's time as it was", async () => {
    const { adapter, open, due, settle } = await queueOn(make);
    await adapter.append(waiting("t", NEVER));
    await requireLog(adapter).append("t", [record("first")]);
    settle();
    expect(await due(NOON)).toEqual([]);
    await requireLog(open()).append("t", [record("second")], {}, { dueAt: NOON });
    settle();
    expect(await due(NOON)).toEqual(["t"]);
  });

  it("finds a task after a change of its status", async () => {
    const { adapter, open, due, settle } = await queueOn(make);
    await adapter.append(waiting("t", NEVER));
    settle();
    expect(await due(NOON)).toEqual([]);
    await open().setStatus("t", "c1", { status: "running" });
    expect(await due(NOON)).toEqual(["t"]);
  });

  it("sees a change in the same tick of the file system's clock", async () => {
    const { root, adapter, open, due } = await queueOn(make);
    const folder = join(root, "t");
    await adapter.append(waiting("t", NEVER));
    const tick = new Date(NOON);
    utimesSync(folder, tick, tick);
    vi.setSystemTime(tick.getTime() + TICK_MS);
    expect(await due(NOON)).toEqual([]);
    await open().setStatus("t", "c1", { status: "running" });
    utimesSync(folder, tick, tick);
    expect(await due(NOON)).toEqual(["t"]);
  });

  it("finds a task whose lease expires, although nothing in its folder changes", async () => {
    const { adapter, due, settle } = await queueOn(make);
    stopClocks("Date", "hrtime");
    const { token } = await adapter.leases.claim("t", "worker", LONG_MS);
    await adapter.append(waiting("t", NEVER), { fencingToken: token });
    settle();
    expect(await due(NOON)).toEqual([]);
    vi.advanceTimersByTime(LONG_MS - 1);
    expect(await due(NOON)).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(await due(NOON)).toEqual(["t"]);
    // The new lease was released, so the task waits again.
    expect(await due(NOON)).toEqual([]);
  });

  it.runIf(process.platform === "linux")("finds a killed worker's task at once (skipped without /proc)", async () => {
    const { root, adapter, due, settle } = await queueOn(make);
    await adapter.append(waiting("t", NEVER));
    const worker = await startHolder(`${url}:${root}`);
    settle();
    expect(await due(NOON)).toEqual([]);
    worker.kill("SIGKILL");
    await once(worker, "exit");
    expect(await due(NOON)).toEqual(["t"]);
  });

  it("forgets a removed folder", async () => {
    const { root, adapter, open, due, settle } = await queueOn(make);
    for (const taskId of ["t", "u"]) await adapter.append(ofRun(taskId));
    settle();
    expect(await due(NOON)).toEqual(["t", "u"]);
    rmSync(join(root, "t"), { recursive: true });
    expect(await due(NOON)).toEqual(["u"]);
    await open().append(waiting("t", EVENING));
    expect(await due(NOON)).toEqual(["u"]);
    expect(await due(EVENING)).toEqual(["u", "t"]);
    rmSync(root, { recursive: true });
    expect(await due(NOON)).toEqual([]);
  });

  it("leaves out whatever isn't a task of its own", async () => {
    const { root, adapter, due } = await queueOn(make);
    await adapter.append(ofRun("t"));
    cpSync(join(root, "t"), join(root, "copied"), { recursive: true });
    renameSync(join(root, "copied"), join(dirname(root), "moved"));
    symlinkSync(join(dirname(root), "moved"), join(root, "link"));
    cpSync(join(root, "t"), join(root, "foreign"), { recursive: true });
    for (const name of [".git", "node_modules", "%zz", "a b"]) mkdirSync(join(root, name));
    writeFileSync(join(root, "README.md"), "hello");
    expect(await due(NOON)).toEqual(["t"]);
  });

  it("leaves a newer program's tasks to that program's workers", async () => {
    const { root, adapter, due } = await queueOn(make);
    for (const taskId of ["newer", "t"]) await adapter.append(ofRun(taskId));
    const [name, content] = newer;
    writeFileSync(join(root, "newer", name), content);
    expect(await due(NOON)).toEqual(["t"]);
  });

  it("finds a task whose folder's name is a hash", async () => {
    const { adapter, due } = await queueOn(make);
    const long = `mails/${"x".repeat(500)}`;
    for (const taskId of [long, "mails", "other/t"]) await adapter.append(ofRun(taskId));
    expect(await due(NOON, "mails/")).toEqual([long]);
    expect(await due(NOON, "mail")).toEqual(["mails", long]);
    expect(await due(NOON, "mails/y")).toEqual([]);
  });

  it("remembers hundreds of unchanged tasks, and lets other work run while it looks", async () => {
    const { root, adapter, settle } = await queueOn(make);
    const ids = Array.from({ length: 300 }, (_, index) => `t/${index}`);
    await Promise.all(ids.map((taskId) => adapter.append(waiting(taskId, EVENING))));
    settle();
    const query = { prefix: "t/", dueBy: EVENING };
    expect(await adapter.queue.count(query)).toEqual({ tasks: 300, oldestDueAt: EVENING });
    // Writing to a file doesn't change its folder, so a folder that is read again shows no readable task.
    for (const name of readdirSync(root)) spoil(join(root, name));
    let [isOver, turns] = [false, 0];
    const look = adapter.queue.count(query).finally(() => {
      isOver = true;
    });
    for (; !isOver; turns++) await nextTurn();
    expect(await look).toEqual({ tasks: 300, oldestDueAt: EVENING });
    expect(turns).toBeGreaterThanOrEqual(3);
  });
});

describe.each(Object.entries(stores))("a worker's claim of a %s task", (_kind, { make }) => {
  const query = { prefix: "", dueBy: NOON };

  it("reads the task again, because it may have changed without a visible sign", async () => {
    const { root, adapter, settle } = await queueOn(make);
    for (const taskId of ["t", "u"]) await adapter.append(ofRun(taskId));
    settle();
    expect((await adapter.queue.count(query)).tasks).toBe(2);
    spoil(join(root, "t"));
    expect((await adapter.queue.count(query)).tasks).toBe(2);
    expect(await adapter.queue.claimNext(query, "worker", LONG_MS, 1)).toEqual([{ taskId: "u", token: 1 }]);
    expect(await adapter.leases.current("t")).toBeUndefined();
  });

  it("takes the next task if another worker claims this one first", async () => {
    const { root, adapter } = await queueOn(make);
    const path = join(root, "t", ".lease.json");
    for (const taskId of ["t", "u"]) await adapter.append(ofRun(taskId));
    await adapter.leases.claim("t", "worker", LONG_MS);
    const lease = readFileSync(path);
    await adapter.leases.release("t", 1);
    const claim = await whileLocked(
      join(root, "t"),
      () => adapter.queue.claimNext(query, "next", LONG_MS, 1),
      () => writeFileSync(path, lease),
    );
    expect(claim).toEqual([{ taskId: "u", token: 1 }]);
    expect(await adapter.leases.current("t")).toMatchObject({ holder: "worker", token: 1 });
  });

  it("doesn't make the folder of a task that was removed meanwhile", async () => {
    const { root, adapter, due } = await queueOn(make);
    await adapter.append(ofRun("t"));
    expect(await due(NOON)).toEqual(["t"]);
    const claim = await whileLocked(
      join(root, "t"),
      () => adapter.queue.claimNext(query, "worker", LONG_MS, 1),
      () => rmSync(join(root, "t"), { recursive: true }),
    );
    expect(claim).toEqual([]);
    expect(existsSync(join(root, "t"))).toBe(false);
  });

  it("refuses a task whose lease is damaged, once no other task is due", async () => {
    const { root, adapter } = await queueOn(make);
    for (const taskId of ["t", "u"]) await adapter.append(ofRun(taskId));
    writeFileSync(join(root, "t", ".lease.json"), "{");
    expect(await adapter.queue.claimNext(query, "worker", LONG_MS, 1)).toEqual([{ taskId: "u", token: 1 }]);
    await expect(adapter.queue.claimNext(query, "worker", LONG_MS, 1)).rejects.toMatchObject({
      code: "CHECKPOINT_CORRUPT",
      message: expect.stringContaining('Could not claim task "t"'),
    });
  });

  it("is refused after close", async () => {
    const { adapter } = await queueOn(make);
    await adapter.append(ofRun("t"));
    await adapter.close();
    await expect(adapter.queue.claimNext(query, "worker", LONG_MS, 1)).rejects.toMatchObject({ code: "CLOSED" });
    await expect(adapter.queue.count(query)).rejects.toMatchObject({ code: "CLOSED" });
  });
});

type Offering = StorageAdapter & Required<Pick<StorageAdapter, "leases" | "queue">>;

/** Opens a store in a process whose clock stands still. */
async function queueOn(
  make: () => Promise<{ readonly root: string; readonly adapter: Offering; readonly open: () => Offering }>,
) {
  stopClocks("Date");
  const { root, adapter, open } = await make();
  return {
    root,
    adapter,
    open,
    /** Sets the clock to a time when no folder has changed recently. */
    settle(): void {
      const modified = readdirSync(root).map((name) => statSync(join(root, name)).mtimeMs);
      vi.setSystemTime(Math.max(...modified) + SETTLED_MS);
    },
    /** Returns the due tasks in the order in which workers get them. Releases each task again. */
    async due(dueBy: string, prefix = ""): Promise<string[]> {
      const claimed: ClaimedTask[] = [];
      for (;;) {
        const [task] = await adapter.queue.claimNext({ prefix, dueBy }, "worker", LONG_MS, 1);
        if (task === undefined) break;
        claimed.push(task);
      }
      for (const { taskId, token } of claimed) await adapter.leases.release(taskId, token);
      return claimed.map(({ taskId }) => taskId);
    },
  };
}

function stopClocks(...toFake: ("Date" | "hrtime")[]): void {
  vi.useFakeTimers({ toFake });
  onTestFinished(() => void vi.useRealTimers());
}

/** Makes a checkpoint like a run's. */
function ofRun(taskId: string, { id = "c1", createdAt = "2026-01-02T03:04:05.678Z" } = {}): CheckpointDraft {
  return draft(taskId, id, { createdAt, status: "running", dueAt: createdAt });
}

/** Makes a checkpoint of a run that waits until a time. */
function waiting(taskId: string, dueAt: string): CheckpointDraft {
  return draft(taskId, "c1", { status: "paused", dueAt });
}

/** Makes a task unreadable without changing its folder. */
function spoil(folder: string): void {
  const [name = ""] = readdirSync(folder).filter((entry) => entry.endsWith("s.json") || entry.endsWith("-c1.json"));
  writeFileSync(join(folder, name), "spoilt");
}

/** Makes a call, and makes a change once the call waits for the folder's lock. */
async function whileLocked<Result>(folder: string, call: () => Promise<Result>, change: () => void) {
  let result: Promise<Result> | undefined;
  await withLock(folder, { timeoutMs: 5_000 }, async () => {
    result = call();
    for (let turn = 0; turn < 100; turn++) await nextTurn();
    change();
  });
  return result;
}

/** Starts a process that holds task `t`. */
async function startHolder(url: string): Promise<ChildProcess> {
  const script = `
    import { ownHolder } from "waymark/adapter";
    import { openStorage } from "waymark/adapters";
    await openStorage(process.argv[1]).leases.claim("t", ownHolder(), ${LONG_MS});
    console.log("claimed");
    setInterval(() => undefined, ${LONG_MS});
  `;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script, url], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(createInterface(child.stdout), "line");
  return child;
}
