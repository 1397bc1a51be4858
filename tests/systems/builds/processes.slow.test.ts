import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { StorageError } from "waymark";
import { checkpoint, connect, openBuilds, rowsOf } from "./support.js";

const SAVER = fileURLToPath(new URL("../../fixtures/builds/save-until-killed.mjs", import.meta.url));

function startSaver(path: string, name: string, count: number, keepLast: number) {
  const args = [SAVER, path, name, String(count), String(keepLast)];
  return spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
}

describe("processes that save at once", () => {
  it("all succeed, even on a database that doesn't exist yet", async () => {
    const { path, getLatestCheckpoint } = await openBuilds();
    const names = ["p", "q", "r"];
    const exits = names.map((name) => {
      const child = startSaver(path, name, 40, 1000);
      child.stdout.resume();
      return once(child, "exit");
    });
    expect(await Promise.all(exits)).toEqual(names.map(() => [0, null]));

    const rows = rowsOf(connect(path), "b");
    for (const name of names) {
      const own = rows.map(({ id }) => id).filter((id) => id.startsWith(name));
      expect(own).toEqual(Array.from({ length: 40 }, (_, i) => `${name}-${i + 1}`));
    }
    expect(getLatestCheckpoint("b")?.id).toBe(rows.at(-1)?.id);
  });

  it("together keep as many as one of them would keep", async () => {
    const { path } = await openBuilds();
    const children = ["p", "q"].map((name) => startSaver(path, name, 30, 7));
    for (const child of children) child.stdout.resume();
    await Promise.all(children.map((child) => once(child, "exit")));
    expect(rowsOf(connect(path), "b")).toHaveLength(7);
  });
});

describe("a process killed by SIGKILL while it saves", () => {
  it("has lost no acknowledged checkpoint", async () => {
    const { path, getLatestCheckpoint } = await openBuilds();
    const acknowledged: string[] = [];
    for (let life = 1; life <= 5; life++) {
      const child = startSaver(path, `life-${life}`, Number.MAX_SAFE_INTEGER, 1_000_000);
      for await (const line of createInterface({ input: child.stdout })) {
        acknowledged.push(line);
        if (acknowledged.length % 20 === 0) child.kill("SIGKILL");
      }
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
      expect(child.signalCode).toBe("SIGKILL");
      // The last acknowledged checkpoint is the newest, unless the next one was stored just before the end.
      const newest = rowsOf(connect(path), "b").slice(-2);
      expect(newest.map(({ id }) => id)).toContain(acknowledged.at(-1));
      expect(getLatestCheckpoint("b")?.id).toBe(newest.at(-1)?.id);
    }
    const stored = rowsOf(connect(path), "b").map(({ id }) => id);
    expect(stored.filter((id) => acknowledged.includes(id))).toEqual(acknowledged);
    expect(connect(path).pragma("integrity_check", { simple: true })).toBe("ok");
  });

  it("has never removed old checkpoints without storing the new one, nor the other way round", async () => {
    const { path } = await openBuilds();
    for (let life = 1; life <= 5; life++) {
      const child = startSaver(path, `life-${life}`, Number.MAX_SAFE_INTEGER, 5);
      let lines = 0;
      for await (const _line of createInterface({ input: child.stdout })) {
        lines += 1;
        if (lines === 10 + life) child.kill("SIGKILL");
      }
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
      expect(rowsOf(connect(path), "b")).toHaveLength(5);
    }
  });
});

describe("a database that another process has locked", () => {
  it("throws a typed error when the wait times out, and can be read meanwhile", async () => {
    const { saveCheckpoint, getLatestCheckpoint, path } = await openBuilds({ busyTimeoutMs: 20 });
    saveCheckpoint(checkpoint("c1"));
    const holder = connect(path);
    holder.exec("BEGIN IMMEDIATE");
    expect(() => saveCheckpoint(checkpoint("c2"))).toThrow(StorageError);
    expect(() => saveCheckpoint(checkpoint("c2"))).toThrow(/locked by another process.*20 ms.*Try again/);
    expect(() => saveCheckpoint(checkpoint("c2"))).toThrow(expect.objectContaining({ retryable: true }));
    expect(getLatestCheckpoint("b")?.id).toBe("c1");

    holder.exec("COMMIT");
    saveCheckpoint(checkpoint("c2"));
    expect(getLatestCheckpoint("b")?.id).toBe("c2");
  });
});
