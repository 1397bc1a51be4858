// Tests which changes `log.watch` reports.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { StorageAdapter } from "waymark";
import { openStorage } from "waymark/adapters";
import { draft } from "../../../conformance/drafts.js";
import { record, requireLog } from "../../../conformance/records.js";
import { newSchema, openAdapter } from "../../support/postgres.js";
import { tempFolder } from "../../support/temp-folder.js";

const URLS: Record<string, () => Promise<string>> = {
  "json-file": async () => `files:${join(await tempFolder(), "store")}`,
  "task-file": async () => `tasks:${join(await tempFolder(), "store")}`,
  sqlite: async () => `sqlite:${join(await tempFolder(), "store.db")}`,
  postgres: async () => {
    const { url, schema } = await newSchema();
    const withSchema = new URL(url);
    withSchema.searchParams.set("schema", schema);
    return withSchema.href;
  },
};

function open(url: string): StorageAdapter {
  return url.startsWith("postgres") ? openAdapter({ url }) : openStorage(url);
}

/** Starts a watch that counts its reports, and waits until it works. */
async function watching(adapter: StorageAdapter, taskId?: string) {
  const told: (boolean | undefined)[] = [];
  let tell = (): void => undefined;
  const next = () =>
    new Promise<void>((resolve) => {
      tell = resolve;
    });
  const first = next();
  const end = requireLog(adapter).watch!((isOwn) => {
    told.push(isOwn);
    tell();
  }, taskId);
  await first;
  return { told, next, end };
}

describe.each(Object.entries(URLS))("a watch on %s", (place, urlOf) => {
  it("reports only its own task, or due tasks if it has none", async () => {
    const url = await urlOf();
    const [here, other] = [open(url), open(url)];
    const append = (taskId: string, name: string) => requireLog(other).append(taskId, [record(name)]);
    for (const taskId of ["a", "b", "c"]) await append(taskId, "first");
    const [a, c, due] = [await watching(here, "a"), await watching(here, "c"), await watching(here)];
    const before = [a.told.length, due.told.length];
    await append("b", "second");
    const changed = c.next();
    await append("c", "second");
    await changed;
    // SQLite reports all changes, because it can't detect which ones make a task due.
    expect([a.told.length, place === "sqlite" ? before[1] : due.told.length]).toEqual(before);
    const [changedA, isDue] = [a.next(), due.next()];
    await other.append(draft("a", "c1", { dueAt: "2026-01-02T03:04:05.000Z" }));
    await Promise.all([changedA, isDue]);
    for (const { end } of [a, c, due]) end();
    await Promise.all([here.close(), other.close()]);
  });

  it("tells that its task was removed, alone or by a prefix", async () => {
    const url = await urlOf();
    const [here, other] = [open(url), open(url)];
    for (const taskId of ["a", "b/1", "b/2"]) await other.append(draft(taskId, "c1"));
    const [a, ...bs] = [await watching(here, "a"), await watching(here, "b/1"), await watching(here, "b/2")];
    let told = a.next();
    await other.remove("a", "all");
    await told;
    const ofAll = bs.map((b) => b.next());
    const removeEach = () => Promise.all(["b/1", "b/2"].map((taskId) => other.remove(taskId, "all")));
    await (other.removePrefix?.("b/") ?? removeEach());
    await Promise.all(ofAll);
    // The watch is started again.
    told = a.next();
    await other.append(draft("a", "c1"));
    await told;
    for (const { end } of [a, ...bs]) end();
    await Promise.all([here.close(), other.close()]);
  });

  it.each(["open", "ended"])("doesn't keep the process alive while it is open, and after its end: %s", async (how) => {
    const url = await urlOf();
    const storage = open(url);
    await storage.append(draft("t", "c1"));
    const program = `
      import { openStorage } from "waymark/adapters";
      const storage = openStorage(process.argv[1]);
      await new Promise((resolve) => {
        setTimeout(() => resolve(), 60_000).unref();
        const timer = setInterval(() => undefined, 1000);
        const end = storage.log.watch(() => {
          clearInterval(timer);
          resolve();
          if (process.argv[2] === "ended") for (const each of [end, endDue]) each();
        }, "t");
        const endDue = storage.log.watch(() => undefined);
      });
      const startMs = performance.now();
      // PostgreSQL keeps listening for ten more seconds.
      process.once("exit", () => console.log(performance.now() - startMs < 9000 ? "exits" : "lingers"));
      console.log("watches");`;
    const child = spawnSync(process.execPath, ["--input-type=module", "-e", program, url, how], {
      encoding: "utf8",
      timeout: 30_000,
    });
    expect(child).toMatchObject({ status: 0, stdout: "watches\nexits\n", stderr: "" });
    await storage.close();
  });
});

it.each(["sqlite", "postgres"])("a watch on %s says which changes are its own instance's", async (place) => {
  const url = await URLS[place]!();
  const [here, other] = [open(url), open(url)];
  await requireLog(here).append("t", [record("first")]);
  const { told, next, end } = await watching(here, "t");
  told.length = 0;
  for (const [writer, isOwn] of [
    [here, true],
    [other, false],
    [here, true],
    [other, false],
  ] as const) {
    const changed = next();
    await requireLog(writer).append("t", [record(String(isOwn))]);
    await changed;
  }
  expect(told.map((isOwn = false) => isOwn)).toEqual([true, false, true, false]);
  end();
  await Promise.all([here.close(), other.close()]);
});
