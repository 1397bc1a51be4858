import { readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parseTaskFile } from "../../../../adapters/files/task-file-format.js";
import { MAX_DAMAGED_LINES } from "../../../../adapters/files/task-file-limits.js";
import { collect, draft, idsOf } from "./drafts.js";
import { newTaskStore } from "./stores.js";

const OLDEST = { taskId: "t", order: "oldest" } as const;

/** A task's file with `count` lines of junk between its two checkpoints. */
async function withJunk(count: number, line = "junk,\n") {
  const { adapter, pathOf } = await newTaskStore();
  for (const id of ["c1", "c2"]) await adapter.append(draft("t", id));
  const path = pathOf("t");
  const [head, first, ...rest] = readFileSync(path, "utf8").split("\n");
  writeFileSync(path, [head, first, line.repeat(count) + rest.join("\n")].join("\n"));
  return { adapter, path };
}

describe("a task's file", () => {
  it("gives what is intact in it as long as its damaged lines are told one by one", async () => {
    const { adapter } = await withJunk(MAX_DAMAGED_LINES);
    const ids = await idsOf(adapter.list(OLDEST));
    expect(ids).toHaveLength(MAX_DAMAGED_LINES + 2);
    expect([ids[0], ids.at(-1)]).toEqual(["c1", "c2"]);
    expect(await adapter.append(draft("t", "c3"))).toBe(3);
  });

  it("with one more damaged line is damaged as a whole, with its numbering, and kept whole in quarantine", async () => {
    const { adapter, path } = await withJunk(MAX_DAMAGED_LINES + 1);
    const before = readFileSync(path);
    const reason = `more than ${MAX_DAMAGED_LINES} of its lines or records can't be read`;
    expect(await collect(adapter.list(OLDEST))).toMatchObject([{ corrupt: true, location: path, reason }]);
    await expect(adapter.append(draft("t", "c3"))).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
    const findings = await collect(adapter.verify({ quick: false }));
    expect(findings.filter(({ kind }) => kind !== "checked")).toMatchObject([{ kind: "record", taskId: "t", reason }]);

    const steps = await collect(adapter.repair({ dryRun: false, leftoversOlderThanMs: 0 }));
    expect(steps).toMatchObject([{ action: "quarantined" }]);
    const [step] = steps;
    expect(step?.action === "quarantined" && readFileSync(step.to).equals(before)).toBe(true);
    expect(await adapter.append(draft("t", "c3"))).toBe(3);
  });

  it("may have any number of empty lines, which count for nothing in lists of tasks either", async () => {
    const { adapter } = await withJunk(MAX_DAMAGED_LINES + 1, "\r\n");
    expect(await idsOf(adapter.list(OLDEST))).toEqual(["c1", "c2"]);
    expect(await collect(adapter.tasks({ order: "taskId" }))).toMatchObject([{ taskId: "t", count: 2 }]);
  });

  it("that lost its first line gives what is intact, and tells the number of each damaged line", async () => {
    const { adapter, path } = await withJunk(3, "\n\r\njunk\n");
    writeFileSync(path, readFileSync(path, "utf8").replace('{"version', "{version"));
    const found = await collect(adapter.list(OLDEST));
    const locations = found.flatMap((item) => ("corrupt" in item ? item.location : item.id));
    expect(locations).toEqual(["c1", ...[5, 8, 11].map((line) => `${path} (line ${line})`), "c2", path]);
  });

  it("of very many small checkpoints is read as it was written", async () => {
    const { adapter, path } = await withJunk(0);
    const [head, line] = readFileSync(path, "utf8").split("\n");
    const many = 3 * MAX_DAMAGED_LINES;
    const bytes = Buffer.from(`${head}\n${`${line}\n`.repeat(many)}]}\n`);
    // Copies of one checkpoint are damage, and each was read: no limit is for what can be.
    expect(parseTaskFile(bytes, path, undefined).entries).toHaveLength(many);
    expect(await idsOf(adapter.list(OLDEST))).toEqual(["c1", "c2"]);
  });
});
