import { appendFileSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { StorageAdapter } from "waymark";
import { HeldLog } from "../../../../adapters/files/held-log.js";
import { FolderLock } from "../../../../adapters/files/lock.js";
import { readIndex } from "../../../../adapters/files/log-file.js";
import { pickRecordFields } from "../../../../adapters/files/log-line.js";
import { nameLog, record, requireLog } from "../../../../conformance/records.js";
import { sealRecordDraft } from "../../../../src/contract/log.js";
import { tempFolder } from "../../../support/temp-folder.js";
import { collect, draft } from "./drafts.js";
import { newJsonStore } from "./stores.js";

async function newLog(count = 4) {
  const { root, open, adapter } = await newJsonStore();
  for (let n = 1; n <= count; n++) await requireLog(adapter).append("t", [record(`r${n}`)]);
  const path = join(root, "t", "log.jsonl");
  /** Rewrites the file, and opens it with an adapter whose process hasn't read it. */
  const change = (edit: (text: string) => string) => writeFileSync(path, edit(readFileSync(path, "utf8")));
  return { root, open, adapter, path, change };
}

async function findDamage({ maintenance }: StorageAdapter) {
  const findings = maintenance ? await collect(maintenance.verify({ quick: false })) : [];
  return findings.flatMap((finding) => (finding.kind === "damaged" ? [finding.sequence] : []));
}

async function repair({ maintenance }: StorageAdapter) {
  const steps = maintenance?.repair({ leftoversOlderThanMs: 0, dryRun: false });
  return (steps ? await collect(steps) : []).map(({ action }) => action);
}

describe("the log of json-file", () => {
  it("has one JSON document per line, with the values as they were given", async () => {
    const { path } = await newLog(1);
    const [first, second] = readFileSync(path, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(first).toMatchObject({ waymark: 1, taskId: "t", lastSequence: 0 });
    expect(second).toMatchObject({ log: first.log, sequence: 1, kind: "step", name: "r1", value: { name: "r1" } });
  });

  it.each([
    ["value", (line: string) => line.replace('"value":{"name":"r2"', '"value":{"name":"x2"')],
    ["header", (line: string) => line.replace('"kind":"step"', '"kind":"stop"')],
    ["length", (line: string) => line.slice(0, -3)],
  ])("reports a line with a damaged %s by its sequence, and repair moves it into quarantine", async (part, damage) => {
    const { adapter, change } = await newLog();
    change((text) => {
      const lines = text.split("\n");
      lines[2] = damage(lines[2] ?? "");
      return lines.join("\n");
    });
    // If the length changes, later lines are at other positions.
    const damaged = part === "length" ? [2, 3, 4] : [2];
    expect(await findDamage(adapter)).toEqual(damaged);
    expect(await requireLog(adapter).append("t", [record("next")])).toBe(5);
    expect(await repair(adapter)).toEqual(damaged.map(() => "quarantined"));
    expect(await findDamage(adapter)).toEqual([]);
    const left = part === "length" ? ["1 r1", "5 next"] : ["1 r1", "3 r3", "4 r4", "5 next"];
    expect(await nameLog(adapter)).toEqual(left);
  });

  it("doesn't call the rest of a killed writer's line damage, and writes on after it", async () => {
    const { adapter, path } = await newLog(2);
    appendFileSync(path, '{"at":500,"log":"cut sh');
    expect(await nameLog(adapter)).toEqual(["1 r1", "2 r2"]);
    await requireLog(adapter).append("t", [record("r3")]);
    appendFileSync(path, "\0".repeat(300));
    await requireLog(adapter).append("t", [record("r4")]);
    expect(await nameLog(adapter)).toEqual(["1 r1", "2 r2", "3 r3", "4 r4"]);
    expect(await findDamage(adapter)).toEqual([]);
  });

  it("reports no damage where two killed writers left parts of lines", async () => {
    const { adapter, path } = await newLog(2);
    appendFileSync(path, '{"at":500,"log":"cut sh\n{"at":524,"lo');
    await requireLog(adapter).append("t", [record("r3")]);
    expect(await nameLog(adapter)).toEqual(["1 r1", "2 r2", "3 r3"]);
    expect(await findDamage(adapter)).toEqual([]);
  });

  it.each(["\0", "\0".repeat(40)])("reports a line in which bytes became NUL: %j", async (zeros) => {
    const { adapter, change } = await newLog();
    change((text) => text.replace(/"name":"r2".{40}/, ({ length }) => zeros.padEnd(length, "x")));
    expect(await findDamage(adapter)).toEqual([2]);
    expect(await requireLog(adapter).remove("t", { beforeSequence: 2 })).toBe(1);
    expect(await nameLog(adapter)).toEqual(["2 corrupt", "3 r3", "4 r4"]);
    expect(await findDamage(adapter)).toEqual([2]);
  });

  it("reports a batch whose first line was lost only if a later line follows it", async () => {
    const lose = (text: string) => text.replace(/"name":"r3".{40}/, ({ length }) => "\0".repeat(length));
    const { adapter, change } = await newLog(2);
    await requireLog(adapter).append("t", [record("r3"), record("r4")]);
    change(lose);
    expect(await findDamage(adapter)).toEqual([]);

    const { adapter: other, change: changeOther } = await newLog(2);
    await requireLog(other).append("t", [record("r3"), record("r4")]);
    await requireLog(other).append("t", [record("after")]);
    changeOther(lose);
    expect(await findDamage(other)).toContain(3);
  });

  it("reports a last line in which one byte became NUL", async () => {
    const { adapter, change } = await newLog();
    change((text) => text.replace('"name":"r4"', '"name":"r\0"'));
    expect(await findDamage(adapter)).toEqual([4]);
  });

  it("reports every line of a file whose line ends were changed", async () => {
    const { adapter, change } = await newLog();
    change((text) => text.replaceAll("\n", "\r\n"));
    expect(await findDamage(adapter)).toEqual([1, 2, 3, 4]);
    expect(await requireLog(adapter).append("t", [record("next")])).toBe(5);
  });

  it("reports them also if records were removed before", async () => {
    const { adapter, change } = await newLog();
    await requireLog(adapter).remove("t", { beforeSequence: 2 });
    change((text) => text.replaceAll("\n", "\r\n"));
    expect(await findDamage(adapter)).toEqual([2, 3, 4]);
    expect(await requireLog(adapter).append("t", [record("next")])).toBe(5);
  });

  it("reports the lines that a merge of two branches appended, but those of a stopped writer don't count", async () => {
    const { adapter, change, path } = await newLog(2);
    const base = readFileSync(path, "utf8");
    await requireLog(adapter).append("t", [record("a3")]);
    const ours = readFileSync(path, "utf8");
    writeFileSync(path, base);
    await requireLog(adapter).append("t", [record("b3")]);
    await requireLog(adapter).append("t", [record("b4")]);
    const theirs = readFileSync(path, "utf8").slice(base.length);
    change(() => ours + theirs);
    expect(await findDamage(adapter)).toEqual([4]);
    expect(await requireLog(adapter).append("t", [record("next")])).toBe(5);
  });

  it("reports a damaged first line, and keeps the records and the numbering", async () => {
    const { adapter, change } = await newLog(2);
    change((text) => text.replace('"lastSequence":0', '"lastSequence":9'));
    expect(await nameLog(adapter)).toEqual(["1 r1", "2 r2"]);
    expect(await findDamage(adapter)).toEqual([undefined]);
    expect(await requireLog(adapter).append("t", [record("r3")])).toBe(3);
    expect(await repair(adapter)).toEqual(["quarantined"]);
    expect(await findDamage(adapter)).toEqual([]);
    expect(await nameLog(adapter)).toEqual(["1 r1", "2 r2", "3 r3"]);
  });

  it("continues after its own lines, also with names that aren't ASCII", async () => {
    const { adapter, open } = await newLog(0);
    const names = ["café", "日本", "🧭", "last"];
    for (const [at, name] of names.entries()) {
      expect(await requireLog(adapter).append("t", [record(name), record(`${name} 2`)])).toBe(2 * at + 2);
    }
    const all = names.flatMap((name, at) => [`${2 * at + 1} ${name}`, `${2 * at + 2} ${name} 2`]);
    expect(await nameLog(adapter)).toEqual(all);
    expect(await requireLog(open()).append("t", [record("another")])).toBe(9);
    expect(await nameLog(adapter)).toEqual([...all, "9 another"]);
  });

  it("counts a batch whose checkpoint was stored, though its commit line is missing", async () => {
    const { adapter, change } = await newLog(1);
    await adapter.append(draft("t", "c1"), {}, { records: [record("a"), record("b")] });
    change((text) => text.replace(/[^\n]*"kind":"commit"[^\n]*\n/, ""));
    const all = ["1 r1", "2 a", "3 b", "4 c1"];
    expect(await nameLog(adapter)).toEqual(all);
    expect(await requireLog(adapter).append("t", [record("next")])).toBe(5);
    await adapter.remove("t", ["c1"]);
    expect(await nameLog(adapter)).toEqual(["1 r1", "2 a", "3 b", "5 next"]);
  });

  it("writes no barrier after a holder that ended, and one after a holder that was killed", async () => {
    const { adapter, path, root } = await newLog(2);
    const barriers = () => readFileSync(path, "utf8").split('"kind":"barrier"').length - 1;
    expect(barriers()).toBe(0);
    rmSync(join(root, "t", ".lock"), { recursive: true });
    expect(await requireLog(adapter).append("t", [record("r3")])).toBe(4);
    expect(barriers()).toBe(1);
    await adapter.append(draft("t", "c1"));
    await requireLog(adapter).append("t", [record("r4")]);
    expect(barriers()).toBe(1);
  });

  it.each(["oldest", "newest"] as const)("continues a read, %s first, after the log was rewritten", async (order) => {
    const { adapter } = await newLog(0);
    const log = requireLog(adapter);
    const drafts = Array.from({ length: 3000 }, (_, n) => record(`r${n + 1}`, n === 1500 ? { kind: "mark" } : {}));
    // A page ends between two batches.
    for (let at = 0; at < drafts.length; at += 500) await log.append("t", drafts.slice(at, at + 500));
    const sequences: number[] = [];
    for await (const { sequence = 0 } of log.read({ taskId: "t", order })) {
      sequences.push(sequence);
      if (sequences.length === 1) await log.remove("t", { kinds: ["mark"] });
    }
    const expected = drafts.map((_, n) => n + 1).filter((sequence) => sequence !== 1501);
    expect(sequences).toEqual(order === "oldest" ? expected : expected.reverse());
  });

  it("reads thousands of records in either order, from anywhere", async () => {
    const { adapter } = await newLog(1);
    const many = Array.from({ length: 3000 }, (_, n) => record(`s${n}`, { body: JSON.stringify("x".repeat(300)) }));
    for (let at = 0; at < many.length; at += 100) await requireLog(adapter).append("t", many.slice(at, at + 100));
    const oldest = await nameLog(adapter);
    expect(oldest).toHaveLength(3001);
    expect(await nameLog(adapter, { order: "newest" })).toEqual(oldest.toReversed());
    expect(await nameLog(adapter, { afterSequence: 1500, beforeSequence: 1600 })).toEqual(oldest.slice(1500, 1599));
  });
});

it("a line that is read while it is being synced counts once, and the next one has the right place", async () => {
  const folder = await tempFolder();
  const path = join(folder, "log.jsonl");
  const lock = await FolderLock.acquire(join(folder, ".lock"), 0);
  const log = await HeldLog.open(path, lock, () => {
    throw new Error("There is no log, so no checkpoint is needed.");
  });
  const line = (n: number) => [pickRecordFields(sealRecordDraft("t", record(`r${n}`), n))];
  await log.append("t", line(1), 0);
  // The line is written before the call returns, and synced afterwards.
  const appended = log.append("t", line(2), 1);
  const read = await readIndex(path);
  expect(read?.lastSequence).toBe(2);
  await appended;
  await log.append("t", line(3), 2);
  lock.release();
  expect(read?.size).toBe(statSync(path).size);
  expect(log.index?.lastSequence).toBe(3);
  const lines = readFileSync(path, "utf8").trim().split("\n");
  expect(lines.slice(1).map((text) => JSON.parse(text).at)).toEqual(
    lines.slice(1).map((_, at) => Buffer.byteLength(`${lines.slice(0, at + 1).join("\n")}\n`)),
  );
});

it("doesn't start over if the lock is stolen once the first record was stored", async () => {
  const folder = await tempFolder();
  const lockFolder = join(folder, ".lock");
  const lock = await FolderLock.acquire(lockFolder, 0);
  const write = lock.write.bind(lock);
  lock.write = async (...args) => {
    await write(...args);
    renameSync(lockFolder, join(folder, ".stolen"));
  };
  const log = await HeldLog.open(join(folder, "log.jsonl"), lock, () => {
    throw new Error("There is no log, so no checkpoint is needed.");
  });
  await log.append("t", [{ fields: { sequence: 1, kind: "barrier" } }], 0);
  expect(log.index?.lastSequence).toBe(1);
  lock.release();
});
