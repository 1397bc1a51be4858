import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { StorageAdapter } from "waymark";
import type { AppendCondition, CheckpointDraft } from "waymark/adapter";
import { collect, draft, idsOf, isWhole } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const OLDEST = { taskId: "t", order: "oldest" } as const;
const fixture = (name: string) => fileURLToPath(new URL(`../../../fixtures/files/${name}`, import.meta.url));

const stores = {
  "json-file": newJsonStore,
  "task-file": newTaskStore,
};

interface Answer {
  readonly value?: unknown;
  readonly code?: string;
}

/** Runs a process that calls an adapter. Resolves to its output. */
function startCaller(kind: string, root: string, method: string, calls: readonly unknown[][], options: string[] = []) {
  const calling = calls.map((call) => JSON.stringify(call));
  const child = spawn(process.execPath, [...options, fixture("caller.mjs"), kind, root, method, ...calling], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  const answers = text(child.stdout).then((printed) =>
    printed.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Answer])),
  );
  return { child, answers };
}

/** Starts a process that is stopped just before its commit, while it holds the task's lock. */
async function startParked(kind: string, root: string, method: string, call: readonly unknown[]) {
  const caller = startCaller(kind, root, method, [[...call]], ["--import", fixture("park-before-commit.mjs")]);
  await vi.waitUntil(() => stateOf(caller.child) === "T", { timeout: 30_000, interval: 5 });
  return {
    resume: async (): Promise<Answer | undefined> => {
      caller.child.kill("SIGCONT");
      return (await caller.answers)[0];
    },
    kill: async (): Promise<void> => {
      caller.child.kill("SIGKILL");
      await once(caller.child, "exit");
    },
  };
}

function stateOf({ pid }: ChildProcess): string {
  return execFileSync("ps", ["-o", "state=", "-p", String(pid)], { encoding: "utf8" }).trim()[0] ?? "";
}

/** Ages the lock, as if its holder had been stopped for longer than a lock stays fresh. */
function makeStale(lockFolder: string): void {
  const then = new Date(Date.now() - 60_000);
  for (const claim of readdirSync(lockFolder)) utimesSync(join(lockFolder, claim), then, then);
}

const LOCK_NAME = ".lock";

describe.each(Object.entries(stores))("%s in many processes", (kind, make) => {
  it("gives each append to one task its own sequence", async () => {
    const { root, adapter } = await make();
    const others = ["a", "b", "c"].map((name) =>
      startCaller(
        kind,
        root,
        "append",
        Array.from({ length: 15 }, (_, n) => [draft("t", `${name}${n}`)]),
      ),
    );
    const own = Array.from({ length: 15 }, (_, n) => adapter.append(draft("t", `own${n}`)));
    const sequences = await Promise.all(own);
    expect(sequences).toEqual(sequences.toSorted((a, b) => a - b));
    for (const { answers } of others) sequences.push(...(await answers).map(({ value }) => value as number));
    expect(sequences.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, n) => n + 1));
    const stored = await collect(adapter.read(OLDEST));
    expect(stored.filter((record) => "seal" in record && isWhole(record))).toHaveLength(60);
  });

  /** Makes a store with one checkpoint and a stale lock of a process that was stopped in `method` before its commit. */
  async function stolenFrom(method: keyof StorageAdapter, call: readonly unknown[]) {
    const { root, adapter } = await make();
    await adapter.append(draft("t", "first"));
    const asleep = await startParked(kind, root, method, call);
    makeStale(join(root, "t", LOCK_NAME));
    expect(await adapter.append(draft("t", "thief"))).toBe(2);
    return { adapter, asleep };
  }

  const late = (condition?: AppendCondition): readonly [CheckpointDraft, AppendCondition?] =>
    condition ? [draft("t", "late"), condition] : [draft("t", "late")];

  it("stores a stopped process's save after the save of the process that stole its lock, never in its place", async () => {
    const { adapter, asleep } = await stolenFrom("append", late());
    expect(await asleep.resume()).toEqual({ value: 3 });
    expect(await idsOf(adapter.list(OLDEST))).toEqual(["first", "thief", "late"]);
  });

  it("refuses the save of a stopped process that expected another newest checkpoint", async () => {
    const { adapter, asleep } = await stolenFrom("append", late({ expectedSequence: 1 }));
    expect(await asleep.resume()).toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    expect(await idsOf(adapter.list(OLDEST))).toEqual(["first", "thief"]);
  });

  it("refuses the change of status of a stopped process that expected another newest checkpoint", async () => {
    const call = ["t", "first", { status: "completed" }, { expectedSequence: 1 }];
    const { adapter, asleep } = await stolenFrom("setStatus", call);
    expect(await asleep.resume()).toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    expect(await adapter.get("t", "first")).toMatchObject({ status: "running" });
    expect(await idsOf(adapter.list(OLDEST))).toEqual(["first", "thief"]);
  });

  it.each([["all"], [["first"]]])(
    "refuses the removal of %j by a stopped process that expected another newest checkpoint",
    async (ids) => {
      const { adapter, asleep } = await stolenFrom("remove", ["t", ids, { expectedSequence: 1 }]);
      expect(await asleep.resume()).toMatchObject({ code: "CHECKPOINT_CONFLICT" });
      expect(await idsOf(adapter.list(OLDEST))).toEqual(["first", "thief"]);
    },
  );

  it("doesn't wait for a process that was killed while it held the lock, and stores nothing of it", async () => {
    const { root, adapter } = await make({ lockTimeoutMs: 0 });
    await adapter.append(draft("t", "first"));
    const asleep = await startParked(kind, root, "append", late());
    await asleep.kill();
    expect(await adapter.append(draft("t", "next"))).toBe(2);
    expect(await idsOf(adapter.list(OLDEST))).toEqual(["first", "next"]);
    expect(readdirSync(join(root, "t")).filter((name) => name.startsWith(`${LOCK_NAME}-`))).toEqual([]);
  });

  it("reports which process holds the lock when the wait times out", async () => {
    const { root, adapter } = await make({ lockTimeoutMs: 20 });
    await adapter.append(draft("t", "first"));
    const asleep = await startParked(kind, root, "append", late());
    const error = await adapter.append(draft("t", "next")).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "STORAGE_FAILED", retryable: true });
    expect((error as Error).message).toMatch(/\d+@\S+ held .* for all 20 ms/);
    expect(await asleep.resume()).toEqual({ value: 2 });
  });
});
