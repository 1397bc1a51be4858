import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { CorruptRecord, StorageAdapter } from "waymark";
import type { StoredCheckpoint } from "waymark/adapter";
import { collect, draft, isWhole } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const OLDEST = { taskId: "t", order: "oldest" } as const;
/**
 * Bit flips that make another letter or digit, change its case, make it a sign, and leave ASCII. Each byte gets two of
 * them.
 */
const _FLIPS = [0x01, 0x02, 0x20, 0x10, 0x80] as const;

const stores = {
  "json-file": async () => {
    const { adapter, root } = await newJsonStore();
    return { adapter, path: join(root, "t", "000000000002-c2.json") };
  },
  "task-file": async () => {
    const { adapter, pathOf } = await newTaskStore();
    return { adapter, path: pathOf("t") };
  },
};

/** Three checkpoints: one with every field, one with bytes, and a plain one. */
async function populated(make: () => Promise<{ adapter: StorageAdapter; path: string }>) {
  const { adapter, path } = await make();
  await adapter.append(draft("t", "c1", { stage: "s", body: '{"state":{"n":1}}' }));
  await adapter.append(
    draft("t", "c2", {
      status: "failed",
      error: { message: "m", code: "E" },
      metadata: { state: 1, list: [{ state: 2 }] },
      label: 'a "label"',
      body: '{"n":2,"text":"ü"}',
    }),
  );
  await adapter.append(draft("t", "c3", { body: Uint8Array.of(1, 2, 3, 250) }));
  const originals = (await collect(adapter.read(OLDEST))) as StoredCheckpoint[];
  return { adapter, path, originals, content: readFileSync(path) };
}

/** The intact records, which a manager would accept. */
async function wholeRecords(adapter: StorageAdapter): Promise<(StoredCheckpoint | CorruptRecord)[]> {
  const found = await collect(adapter.read(OLDEST));
  await collect(adapter.list(OLDEST));
  await collect(adapter.tasks({ order: "recent" }));
  return found.filter((record) => "seal" in record && isWhole(record));
}

it("task-file: a checkpoint that a damaged line may have held counts as damaged, not missing", async () => {
  const { adapter, path, content } = await populated(stores["task-file"]);
  writeFileSync(path, content.toString().replace('{"id":"c2"', '{"id":"x2"'));
  expect(await adapter.get("t", "c2")).toMatchObject({ corrupt: true, location: `${path} (line 3)` });
  writeFileSync(path, content.subarray(0, content.indexOf('{"id":"c2"') + 20));
  expect(await adapter.get("t", "c3")).toMatchObject({ corrupt: true });
});

describe.each(Object.entries(stores))("a changed digit of the format's version in a %s", (name, make) => {
  async function withOtherVersion() {
    const { adapter, path, content } = await populated(make);
    writeFileSync(
      path,
      content.toString().replace(/^\{"waymark":1,|^\{"version":"1/, (start) => start.replace("1", "3")),
    );
    return { adapter, path };
  }

  it("damages only that file: every intact checkpoint is read", async () => {
    const { adapter, path } = await withOtherVersion();
    const corrupt = (await collect(adapter.read({ ...OLDEST, order: "newest" }))).filter(
      (record) => "corrupt" in record,
    );
    expect(corrupt).toMatchObject([
      { location: path, reason: expect.stringMatching(/^its version was changed to "?3/) },
    ]);
    expect(await wholeRecords(adapter)).toHaveLength(name === "json-file" ? 2 : 3);
    expect(await collect(adapter.tasks({ order: "taskId" }))).toContainEqual(
      expect.objectContaining({ taskId: "t", newest: expect.objectContaining({ id: "c3" }) }),
    );
  });

  it("is repaired, and later saves continue the numbering", async () => {
    const { adapter } = await withOtherVersion();
    const steps = await collect(adapter.maintenance!.repair({ dryRun: false, leftoversOlderThanMs: 0 }));
    expect(steps.map(({ action }) => action)).toEqual(["quarantined"]);
    expect(await adapter.append(draft("t", "c4"))).toBe(4);
    const findings = await collect(adapter.maintenance!.verify({ quick: false }));
    expect(findings.filter(({ kind }) => kind !== "checked")).toEqual([]);
  });
});
