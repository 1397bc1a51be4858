import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { StorageAdapter } from "waymark";
import type { RepairStep } from "../../../../src/contract/findings.js";
import { tempFolder } from "../../../support/temp-folder.js";
import { treeOf } from "../../../support/tree.js";
import { collect, draft, idsOf } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const OLDEST = { taskId: "quarantine", order: "oldest" } as const;
const HOUR_MS = 3_600_000;

const stores = { "json-file": newJsonStore, "task-file": newTaskStore };
type Kind = keyof typeof stores;

/** Makes a task of three checkpoints, whose name looks like the quarantine's. Also returns its files. */
async function populated(kind: Kind) {
  const { adapter, root } = await stores[kind]();
  for (const id of ["a1", "a2", "a3"]) await adapter.append(draft("quarantine", id));
  const folder = join(root, "quarantine");
  const fileOf = (n: number) => join(folder, kind === "json-file" ? `00000000000${n}-a${n}.json` : "checkpoints.json");
  /** Changes the state of one of the checkpoints. */
  const damage = (n: number, to = "b") =>
    edit(fileOf(n), (text) => text.replace(`{"of":"a${n}"}`, `{"of":"${to}${n}"}`));
  return { adapter, root, folder, fileOf, damage, quarantine: join(root, ".quarantine", "quarantine") };
}

function edit(path: string, change: (text: string) => string): string {
  const changed = change(readFileSync(path, "utf8"));
  writeFileSync(path, changed);
  return changed;
}

/** Does a dry run, which changes nothing, then a repair, which must report the same steps. Returns the steps. */
async function repair(adapter: StorageAdapter, root: string, leftoversOlderThanMs = HOUR_MS): Promise<RepairStep[]> {
  const before = treeOf(root);
  const planned = await collect(adapter.maintenance!.repair({ dryRun: true, leftoversOlderThanMs }));
  expect(treeOf(root)).toEqual(before);
  const done = await collect(adapter.maintenance!.repair({ dryRun: false, leftoversOlderThanMs }));
  expect(done).toEqual(planned);
  return done;
}

async function findings(adapter: StorageAdapter, quick = false) {
  return (await collect(adapter.maintenance!.verify({ quick }))).flatMap((item) =>
    item.kind === "checked" ? [] : [item],
  );
}

const shapeOf = ({ action, finding }: RepairStep) => `${action} ${finding.kind}`;

describe.each(Object.keys(stores) as Kind[])("repair of %s", (kind) => {
  it("moves a damaged checkpoint byte for byte, notes why, and keeps the intact ones and the numbering", async () => {
    const { adapter, root, damage, fileOf } = await populated(kind);
    const text = damage(3);
    const bytes = kind === "json-file" ? text : (text.split("\n")[3] ?? "");
    const [step, ...others] = await repair(adapter, root);
    expect(others).toEqual([]);
    expect(step).toMatchObject({
      action: "quarantined",
      finding: { reason: "its payload fails its SHA-256 checksum", taskId: "quarantine", id: "a3", sequence: 3 },
    });
    const to = step?.action === "quarantined" ? step.to : "";
    expect(readFileSync(to, "utf8")).toBe(bytes);
    expect(JSON.parse(readFileSync(`${to}.reason.json`, "utf8"))).toMatchObject({
      from: expect.stringContaining(fileOf(3).slice(root.length + 1)),
      reason: "its payload fails its SHA-256 checksum",
      sequence: 3,
    });
    expect(await idsOf(adapter.read(OLDEST))).toEqual(["a1", "a2"]);
    expect(await findings(adapter)).toEqual([]);
    expect(await adapter.append(draft("quarantine", "a4"))).toBe(4);
    expect(await collect(adapter.tasks({ order: "taskId" }))).toMatchObject([{ taskId: "quarantine", count: 3 }]);
  });

  it("keeps both of two damaged files with the same name, and stores none twice", async () => {
    const { adapter, root, damage, fileOf, quarantine } = await populated(kind);
    const whole = readFileSync(fileOf(1));
    const kept = () => readdirSync(quarantine).filter((name) => !name.endsWith(".reason.json"));
    for (const [to, count] of [
      ["x", 1],
      ["y", 2],
    ] as const) {
      writeFileSync(fileOf(1), whole);
      damage(1, to);
      await repair(adapter, root);
      expect(kept()).toHaveLength(count);
    }
    const texts = kept().map((name) => /"of":"\w+"/.exec(readFileSync(join(quarantine, name), "utf8"))?.[0]);
    expect(texts.sort()).toEqual(['"of":"x1"', '"of":"y1"']);
  });

  it("doesn't report damage that another repair has moved meanwhile", async () => {
    const { adapter, root, damage } = await populated(kind);
    damage(2);
    const other = kind === "json-file" ? (await import("waymark/adapters/json-file")).JsonFileAdapter : undefined;
    const second = other
      ? new other({ path: root })
      : new (await import("waymark/adapters/task-file")).TaskFileAdapter({ path: root });
    const options = { dryRun: false, leftoversOlderThanMs: HOUR_MS };
    const both = await Promise.all(
      [adapter, second].map((one: StorageAdapter) => collect(one.maintenance!.repair(options))),
    );
    await second.close();
    expect(both.flat().map(shapeOf)).toEqual(["quarantined damaged"]);
  });

  it("leaves links and files of a newer version, and reports why it leaves the latter", async () => {
    const { adapter, root } = await populated(kind);
    const elsewhere = await tempFolder();
    symlinkSync(elsewhere, join(root, "linked"));
    mkdirSync(join(root, "newer"));
    const name = kind === "json-file" ? "000000000001-x.json" : "checkpoints.json";
    writeFileSync(join(root, "newer", name), '{"waymark":2,"version":"2.0","checkpoints":[\n]}\n');
    const steps = await repair(adapter, root);
    expect(steps.map(shapeOf)).toEqual(["left refused"]);
    for (const step of steps) expect(step).toMatchObject({ advice: expect.stringMatching(/\.$/) });
    expect(readdirSync(elsewhere)).toEqual([]);
  });

  it("removes old leftovers of killed writers, but not new ones", async () => {
    const { adapter, root, folder } = await populated(kind);
    const leftovers = [join(folder, ".lock", "4194305@gone+0123456789abcdef-1"), join(folder, ".lock-stolen")];
    const yesterday = new Date(Date.now() - 24 * HOUR_MS);
    for (const path of leftovers) {
      writeFileSync(path, "");
      utimesSync(path, yesterday, yesterday);
    }
    expect((await findings(adapter)).map(({ kind, location }) => [kind, location])).toEqual(
      leftovers.map((path) => ["leftover", path]),
    );
    expect((await repair(adapter, root, 48 * HOUR_MS)).map(shapeOf)).toEqual(["left leftover", "left leftover"]);
    expect((await repair(adapter, root)).map(shapeOf)).toEqual(["removed leftover", "removed leftover"]);
    expect(await findings(adapter)).toEqual([]);
    for (const path of leftovers) expect(existsSync(path)).toBe(false);
  });

  it("doesn't read payloads in a quick verify", async () => {
    const { adapter, damage } = await populated(kind);
    damage(1);
    expect(await findings(adapter, true)).toEqual([]);
    expect(await findings(adapter)).toHaveLength(1);
  });
});

describe("repair of task-file", () => {
  it("rewrites a file whose first line is damaged with everything intact, and keeps the damaged file", async () => {
    const { adapter, root, fileOf } = await populated("task-file");
    const text = edit(fileOf(1), (whole) => whole.replace('"lastSequence":3', '"lastSequence":7'));
    const [step] = await repair(adapter, root);
    expect(step).toMatchObject({ action: "quarantined", finding: { kind: "damaged", location: fileOf(1) } });
    expect(readFileSync(step?.action === "quarantined" ? step.to : "", "utf8")).toBe(text);
    expect(await idsOf(adapter.read(OLDEST))).toEqual(["a1", "a2", "a3"]);
    expect(await adapter.append(draft("quarantine", "a4"))).toBe(4);
  });

  it("keeps the numbering of a file that was cut short", async () => {
    const { adapter, root, fileOf } = await populated("task-file");
    edit(fileOf(1), (whole) => whole.slice(0, whole.indexOf("\n") + 200));
    expect((await repair(adapter, root)).map(shapeOf)).toEqual(["quarantined damaged", "quarantined damaged"]);
    expect(await collect(adapter.tasks({ order: "taskId" }))).toEqual([]);
    expect(await adapter.append(draft("quarantine", "a4"))).toBe(4);
  });

  it("moves a file without intact checkpoints away, so that the task can start over", async () => {
    const { adapter, root, fileOf } = await populated("task-file");
    writeFileSync(fileOf(1), "garbage");
    expect((await repair(adapter, root)).map(shapeOf)).toEqual(["quarantined damaged"]);
    expect(await findings(adapter)).toEqual([]);
    expect(await adapter.append(draft("quarantine", "b1"))).toBe(1);
  });
});
