import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readdirSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import type { StorageAdapter } from "waymark";
import { isCorrupt } from "waymark/adapter";
import type { LogItem } from "../../../../src/contract/log.js";
import { randomFrom, SEED } from "../../../support/seeded.js";
import { collect } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const FIXTURE = fileURLToPath(new URL("../../../fixtures/files/append-and-stop.mjs", import.meta.url));
const WRITES = 12;
const CALLS_BETWEEN_STOPS = 60;

const stores = { "json-file": newJsonStore, "task-file": newTaskStore };

/** A process that writes, stops itself again and again, and prints what was acknowledged. */
class Writer {
  readonly child: ChildProcess;
  printed = "";
  hasEnded = false;
  stops = 0;

  constructor(kind: string, root: string, name: string, seed: number) {
    const args = [FIXTURE, kind, root, name, String(seed), String(WRITES), String(CALLS_BETWEEN_STOPS)];
    this.child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    this.child.stdout?.on("data", (bytes: Buffer) => {
      this.printed += bytes.toString();
    });
    this.child.once("close", () => {
      this.hasEnded = true;
    });
    onTestFinished(() => {
      this.child.kill("SIGKILL");
    });
  }

  get lines(): string[] {
    return this.printed.split("\n").filter((line) => line !== "");
  }
}

function stoppedAmong(writers: readonly Writer[]): Writer[] {
  const ids = writers.filter(({ hasEnded }) => !hasEnded).map(({ child }) => String(child.pid));
  if (ids.length === 0) return [];
  let states: string;
  try {
    states = execFileSync("ps", ["-o", "pid=,state=", "-p", ids.join(",")], { encoding: "utf8" });
  } catch {
    // All processes have just ended.
    return [];
  }
  return writers.filter(({ child }) => new RegExp(`^\\s*${child.pid} T`, "m").test(states));
}

/** Ages every claim, as if its holder had been stopped for longer than a lock stays fresh. */
function makeStale(root: string): void {
  const then = new Date(Date.now() - 60_000);
  try {
    const lock = join(root, "t", ".lock");
    for (const name of readdirSync(lock)) if (name.includes("@")) utimesSync(join(lock, name), then, then);
  } catch {
    // Another process has taken the lock away.
  }
}

/** Runs writers, and continues or kills stopped ones in a random order, until all have ended. */
async function runInterleaved(kind: string, root: string, names: readonly string[], seed: number, look: () => unknown) {
  const random = randomFrom(seed);
  const below = (limit: number) => Math.floor(random() * limit);
  const writers = names.map((name, index) => new Writer(kind, root, name, seed * 100 + index));
  for (let kills = 0; writers.some(({ hasEnded }) => !hasEnded); ) {
    await look();
    // Lets the events of the processes arrive.
    await setImmediate();
    const stopped = stoppedAmong(writers);
    makeStale(root);
    // Other processes, if any, continue for a while.
    if (stopped.length < writers.filter(({ hasEnded }) => !hasEnded).length && below(3) > 0) continue;
    const writer = stopped[below(stopped.length)];
    if (writer === undefined) continue;
    writer.stops += 1;
    const isKilled = kills < 3 && below(25) === 0;
    if (isKilled) kills += 1;
    writer.child.kill(isKilled ? "SIGKILL" : "SIGCONT");
    if (isKilled) await once(writer.child, "close");
  }
  await look();
  const lines = writers.flatMap((writer) => writer.lines);
  expect(lines.filter((line) => line.startsWith("!"))).toEqual([]);
  return { lines, stops: writers.reduce((sum, { stops }) => sum + stops, 0) };
}

const RECORD = {
  kind: "step",
  name: "zero",
  createdAt: "2026-01-02T03:04:05.678Z",
  payload: { encoding: "json", body: "{}", sha256: createHash("sha256").update("{}").digest("hex") },
} as const;

const nameItem = (item: LogItem) => (isCorrupt(item) ? `corrupt ${item.reason}` : "kind" in item ? item.name : item.id);
async function findDamage({ maintenance }: StorageAdapter) {
  const found = maintenance ? await collect(maintenance.verify({ quick: false })) : [];
  return found.filter(({ kind }) => kind === "damaged" || kind === "merged");
}

const isMark = (item: LogItem) => "kind" in item && item.kind === "mark";

async function readNames(adapter: StorageAdapter, afterSequence = 0) {
  const { log } = adapter;
  const items: LogItem[] = log ? await collect(log.read({ taskId: "t", order: "oldest", afterSequence })) : [];
  return items.map((item) => ({ sequence: item.sequence ?? 0, name: `${nameItem(item)} ${item.sequence}`, item }));
}

describe.each(Object.entries(stores))("the log of %s, whose writers are stopped anywhere", (kind, make) => {
  it(`loses, doubles and reorders no acknowledged record (WAYMARK_SEED=${SEED})`, { timeout: 600_000 }, async () => {
    let stops = 0;
    for (let run = 0; stops < 100; run++) {
      const { root, adapter } = await make();
      const followed: string[] = [];
      let last = 0;
      const follow = async () => {
        for (const { sequence, name, item } of await readNames(adapter, last)) {
          expect(sequence).toBeGreaterThan(last);
          last = sequence;
          if (!isMark(item)) followed.push(name);
        }
      };
      const result = await runInterleaved(kind, root, ["a", "b", "c", "d"], 10 * SEED + run, follow);
      stops += result.stops;
      const stored = (await readNames(adapter)).filter(({ item }) => !isMark(item)).map(({ name }) => name);
      expect(result.lines.filter((line) => !stored.includes(line))).toEqual([]);
      const names = stored.map((name) => name.replace(/ \d+$/, ""));
      expect(new Set(names).size).toBe(names.length);
      expect(followed).toEqual(stored);
      const findings = await findDamage(adapter);
      expect(findings).toEqual([]);
    }
  });

  it(`keeps a log whole whose task is removed and made again (WAYMARK_SEED=${SEED})`, {
    timeout: 600_000,
  }, async () => {
    const { root, adapter } = await make();
    const names = ["remover", "a", "b", "c"];
    await runInterleaved(kind, root, names, 7 * SEED, () => undefined);
    const findings = await findDamage(adapter);
    expect(findings.filter(({ kind: found }) => found === "damaged" || found === "merged")).toEqual([]);
    const stored = (await readNames(adapter)).map(({ name }) => name.replace(/ \d+$/, ""));
    expect(new Set(stored).size).toBe(stored.length);
  });

  it("refuses a writer whose lock was stolen after it had read the log, and which would give a number twice", async () => {
    const { root, adapter } = await make();
    await adapter.log.append("t", [RECORD]);
    const script = fileURLToPath(new URL("../../../fixtures/files/append-among-thieves.mjs", import.meta.url));
    const acknowledged = Number(execFileSync(process.execPath, [script, kind, root]));
    const stored = (await readNames(adapter)).filter(({ item }) => !isMark(item));
    expect(stored.map(({ item }) => nameItem(item))).toEqual(["zero", "first", "second", "late"]);
    // A thief's barrier also takes a number.
    expect(new Set(stored.map(({ sequence }) => sequence)).size).toBe(4);
    expect(stored.at(-1)?.sequence).toBe(acknowledged);
    expect(await findDamage(adapter)).toEqual([]);
  });
});
