// Tests `waymark ui` on a server's database, and over a long time.
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { newSchema } from "../../support/postgres.js";
import { newPlace, start } from "../waymark.js";
import { served } from "./served.js";

it("answers for a server's database, and prints no password", async () => {
  const { url, schema } = await newSchema();
  const storage = new URL(url);
  storage.searchParams.set("schema", schema);
  const manager = new CheckpointManager({ storage: openStorage(storage.href) });
  await manager.save("build-1", { n: 1 }, { stage: "plan" });
  await manager.save("build-1", { n: 2 });
  await manager.run("agent", async (run) => run.step("model", () => 1));
  const page = await served(storage.href, { canWrite: true });

  expect(await page.ask("session", {})).toMatchObject({ kind: "postgres", canWrite: true });
  const { tasks } = await page.ask("tasks", { order: "recent", offset: 0, limit: 10 });
  expect(tasks.map(({ taskId }) => taskId)).toEqual(["agent", "build-1"]);
  const { checkpoints, commands } = await page.ask("task", { taskId: "build-1" });
  expect(checkpoints).toHaveLength(2);
  if (storage.password !== "") expect(JSON.stringify(commands)).not.toContain(storage.password);
  const { id } = checkpoints[0]!;
  expect(await page.ask("diff", { taskId: "build-1", to: id })).toMatchObject({
    changes: [{ text: "n", from: 1, to: 2 }],
  });
  expect((await page.ask("timeline", { taskId: "agent" })).steps).toMatchObject([{ title: "model" }]);
  expect(await page.ask("storage", {})).toMatchObject({ quarantine: { total: 0 } });

  const watch = page.live("watch-tasks", { visible: ["build-1"] });
  onTestFinished(async () => void (await watch.return()));
  expect((await watch.next()).value).toMatchObject({ kind: "open" });
  expect((await watch.next()).value).toMatchObject({ kind: "change" });
  await page.ask("rewind", { taskId: "build-1", id: checkpoints[1]!.id });
  // A change of the storage's queue may be reported first.
  for await (const change of watch) {
    const found = change.kind === "change" ? change.tasks.find(({ taskId }) => taskId === "build-1") : undefined;
    if (found?.newest?.sequence === 3) break;
  }
  const { planId } = await page.ask("retention", { taskId: "build-1", policy: { keepLast: 1 } });
  expect(await page.ask("prune", { planId })).toMatchObject({ removed: 2 });
  await manager.close();
});

/** The duration of the test. For an hour, set WAYMARK_UI_MINUTES=60. */
const MINUTES = Number(process.env["WAYMARK_UI_MINUTES"] ?? 1);
/** The warm-up, in which V8 compiles the code and its heap reaches its final size. */
const WARM_UP_MS = 20_000;
const GROWTH_KB = 20_000;
/** V8 would rather let its heap grow than collect it. */
const SMALL_HEAP = "--max-semi-space-size=1 --max-old-space-size=48";

it(
  "keeps its memory while a storage that changes is watched",
  async () => {
    const { cwd, manager } = await newPlace();
    const child = start(
      { cwd, env: { NODE_OPTIONS: SMALL_HEAP } },
      ["ui", "--no-open", "--storage", "sqlite:checkpoints.db"],
      {
        stdio: ["ignore", "pipe", "ignore"],
      },
    );
    onTestFinished(() => void child.kill("SIGKILL"));
    await manager.save("task-0", {});
    const [line] = await once(createInterface(child.stdout!), "line");
    const { origin, hash } = new URL(line);
    const headers = { Authorization: `Bearer ${new URLSearchParams(hash.slice(1)).get("token")}` };
    const ask = (name: string, request: object) =>
      fetch(`${origin}/api/${name}`, { method: "POST", headers, body: JSON.stringify(request) });
    const stream = (await ask("watch-tasks", { visible: ["task-0"] })).body!.pipeThrough(new TextDecoderStream());
    let messages = 0;
    void (async () => {
      for await (const text of stream) messages += text.includes('"change"') ? 1 : 0;
    })().catch(() => undefined);
    const residentKb = async () => {
      const status = await readFile(`/proc/${child.pid}/status`, "utf8");
      return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]);
    };
    const endsAt = performance.now() + MINUTES * 60_000;
    const warmAt = performance.now() + Math.min(WARM_UP_MS, (MINUTES * 60_000) / 2);
    let warmKb: number | undefined;
    for (let n = 0; performance.now() < endsAt; n += 1) {
      await manager.save(`task-${n % 1_000}`, { n });
      if (n % 20 === 0) await (await ask("tasks", { order: "recent", offset: 0, limit: 100 })).arrayBuffer();
      // The pause gives the storage's changes time to be noticed; it doesn't wait for a result.
      await delay(20);
      if (warmKb === undefined && performance.now() > warmAt) warmKb = await residentKb();
    }
    const grownKb = (await residentKb()) - (warmKb ?? 0);
    await manager.close();
    expect(messages).toBeGreaterThan(MINUTES * 20);
    expect(grownKb).toBeLessThan(GROWTH_KB);
  },
  (MINUTES + 1) * 60_000,
);
