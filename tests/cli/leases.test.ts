// Tests how the command shows a task's runner, and that it doesn't change a running task.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { hostname } from "node:os";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import { openStorage } from "waymark/adapters";
import { WaymarkSaver } from "waymark/langgraph";
import { newPlace } from "./waymark.js";

/** Leases task `t`, makes one auto-save, and waits. */
const RUNNER = `
  import { CheckpointManager } from "waymark";
  import { openStorage } from "waymark/adapters";
  const manager = new CheckpointManager({ storage: openStorage(process.argv[1]) });
  const lease = await manager.lease("t");
  await manager.autoSave("t", () => 1, { lease, stage: "unit-tests" }).flush();
  console.log("saved");
  setInterval(() => undefined, 60_000);
`;

async function startRunner(cwd: string, url: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, ["--input-type=module", "-e", RUNNER, url.replace(":", `:${cwd}/`)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(createInterface(child.stdout), "line");
  return child;
}

async function placeToChange(url?: string) {
  const place = await newPlace(url);
  onTestFinished(() => place.manager.close());
  return place;
}

describe("a task that a process runs", () => {
  it.runIf(process.platform === "linux").each(["sqlite:checkpoints.db", "files:store"])(
    "on %s is shown with its stage and its process, and as interrupted once the process is killed (skipped without /proc)",
    async (url) => {
      const { cwd, run } = await placeToChange(url);
      const runner = await startRunner(cwd, url);
      const its = `${hostname()}, process ${runner.pid}`;
      expect((await run("resume")).stdout).toMatch(
        new RegExp(`^t +Auto-save \\(unit-tests\\) .* running +running on ${its}$`, "m"),
      );
      expect((await run("show", "t")).stdout).toMatch(new RegExp(`^run by +${its}; its lease ends in `, "m"));

      runner.kill("SIGKILL");
      await once(runner, "exit");
      const seen = "last seen (just now|.+ ago)";
      const died = new RegExp(`^t +Auto-save \\(unit-tests\\) .* interrupted +died on ${its}; ${seen}$`, "m");
      expect((await run("resume")).stdout).toMatch(died);
      expect((await run("tasks")).stdout).toMatch(/^t .* interrupted /m);
      expect((await run("show", "t")).stdout).toMatch(new RegExp(`^last run +died on ${its}; ${seen}$`, "m"));
      expect(JSON.parse((await run("resume", "--json")).stdout)).toMatchObject([
        { taskId: "t", lapsed: { hasDied: true } },
      ]);
    },
  );

  it("is shown as neither running nor dead if there is no lease", async () => {
    const { run, manager } = await placeToChange();
    await manager.save("t", 1);
    expect((await run("resume")).stdout).toMatch(/^t .* interrupted +no runner known$/m);
  });

  it("is shown with the expired lease if its holder's process isn't known", async () => {
    const { run, manager, cwd } = await placeToChange();
    await manager.save("t", 1);
    await using storage = closing(openStorage("sqlite:checkpoints.db", { relativeTo: cwd }));
    await storage.leases?.claim("t", "worker-1", 1);
    while (await storage.leases?.current("t"));
    expect((await run("resume")).stdout).toMatch(
      /^t .* interrupted +the lease of worker-1 expired (just now|.* ago)$/m,
    );
  });

  it("is shown before its first checkpoint", async () => {
    const { run, manager } = await placeToChange();
    await manager.save("a", 1);
    await using _new = await manager.lease("new");
    await using _other = await manager.lease("other", { holder: "worker-1" });
    const its = `running on ${hostname()}, process ${process.pid}`;
    expect((await run("tasks")).stdout).toMatch(
      new RegExp(
        `^a .*\\nnew +0 +running +${its}, no checkpoint yet\\nother +0 .*run by worker-1, no checkpoint yet\\n$`,
        "m",
      ),
    );
    expect((await run("resume", "--prefix", "n")).stdout).toMatch(
      new RegExp(`^new +running +${its}, no checkpoint yet$`, "m"),
    );
    expect((await run("tasks", "--limit", "2")).stdout).not.toContain("other");
    expect(JSON.parse((await run("tasks", "--json")).stdout)).toMatchObject([
      { taskId: "a" },
      { taskId: "new", count: 0, lease: { token: 1 } },
      { taskId: "other", lease: { holder: "worker-1" } },
    ]);
    const shown = await run("show", "other");
    expect([shown.code, shown.stdout]).toEqual([
      0,
      expect.stringMatching(
        /^task +other\ncheckpoint +none yet\nrun by +worker-1; its lease ends in .* s unless renewed\n$/m,
      ),
    ]);
    expect(JSON.parse((await run("show", "other", "--json")).stdout)).toMatchObject({ lease: { holder: "worker-1" } });
    const listed = await run("list", "other");
    expect([listed.code, listed.stderr]).toEqual([
      3,
      expect.stringContaining('Task "other" is run by worker-1, and has no checkpoint yet'),
    ]);
  });
});

describe("a task that a process runs", () => {
  it.each([
    ["delete", "t", "--yes"],
    ["delete", "t", "@1", "--yes"],
    ["complete", "t", "--yes"],
    ["rewind", "t", "@1"],
    ["fork", "source", "@1", "t2"],
  ])("is changed by %s %s %s only with --force", async (...args) => {
    const { run, manager } = await placeToChange();
    for (const taskId of ["t", "source"]) for (const state of [1, 2]) await manager.save(taskId, state);
    await using _lease = await manager.lease("t", { holder: "worker-1" });
    await using _new = await manager.lease("t2", { holder: "worker-1" });
    const before = await manager.list("t");
    const refused = await run(...args);
    expect([refused.code, refused.stderr]).toEqual([
      6,
      expect.stringMatching(
        /^waymark: Task "t2?" is run by worker-1\. Its lease ends at \d{4}-.* UTC unless it is renewed\. Nothing was changed\. Stop it first, or pass --force\. \[LEASE_HELD\]\n$/,
      ),
    ]);
    expect(await manager.list("t")).toEqual(before);
    expect(await manager.has("t2")).toBe(false);

    expect((await run(...args, "--force")).code).toBe(0);
    expect([await manager.list("t"), await manager.has("t2")]).not.toEqual([before, false]);
  });

  it("may also be a LangGraph thread", async () => {
    const { run, cwd } = await placeToChange();
    await using storage = closing(openStorage("sqlite:checkpoints.db", { relativeTo: cwd }));
    const saver = new WaymarkSaver({ storage });
    const checkpoint = {
      v: 4,
      id: "1",
      ts: new Date().toISOString(),
      channel_values: {},
      channel_versions: {},
      versions_seen: {},
    };
    await saver.put(
      { configurable: { thread_id: "thread", checkpoint_ns: "" } },
      checkpoint,
      { source: "input", step: -1, parents: {} },
      {},
    );
    const lease = await saver.lease("thread", { holder: "worker-1" });
    expect(await run("delete", "thread", "--yes")).toMatchObject({ code: 6 });
    await lease.release();
    expect(await run("delete", "thread", "--yes")).toMatchObject({ code: 0, stderr: "" });
  });

  it("is pruned without asking for its lease", async () => {
    const { run, manager } = await placeToChange();
    for (const state of [1, 2]) await manager.save("t", state);
    await using _lease = await manager.lease("t");
    expect((await run("prune", "t", "--keep-last", "1", "--yes")).code).toBe(0);
    expect(await manager.list("t")).toHaveLength(1);
  });

  it("is free again after a change", async () => {
    const { run, manager } = await placeToChange();
    for (const state of [1, 2]) await manager.save("t", state);
    expect((await run("rewind", "t", "@1")).code).toBe(0);
    expect(await manager.leaseOf("t")).toBeUndefined();
    await using lease = await manager.lease("t");
    expect(lease.token).toBe(2);
  });
});

function closing<Storage extends { close(): Promise<void> }>(storage: Storage): Storage & AsyncDisposable {
  return Object.assign(storage, { [Symbol.asyncDispose]: () => storage.close() });
}
