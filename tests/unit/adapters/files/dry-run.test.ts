import { existsSync, mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { treeOf } from "../../../support/tree.js";
import { collect, draft } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const FIRST = "000000000001-i1.json";
const NEWEST = "000000000003-i3.json";

/** What is wrong with the checkpoints i1 to i3 of a task, which is in this folder, and what is done about it. */
type Case = readonly [string, (folder: string, quarantine: string) => void, readonly string[]];

function damage(path: string, from: string | RegExp, to: string): void {
  writeFileSync(path, readFileSync(path, "utf8").replace(from, to));
}

function plant(folder: string, name: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, name), "another one's");
}

const jsonCases: readonly Case[] = [
  [
    "of a record whose name is in quarantine already",
    (folder, quarantine) => {
      damage(join(folder, FIRST), '"of":"i1"', '"of":"x1"');
      plant(quarantine, FIRST);
    },
    [`quarantined ${FIRST}.2`],
  ],
  [
    "of a record whose reason's name is in quarantine already",
    (folder, quarantine) => {
      damage(join(folder, FIRST), '"of":"i1"', '"of":"x1"');
      plant(quarantine, FIRST);
      plant(quarantine, `${FIRST}.2.reason.json`);
    },
    [`quarantined ${FIRST}.3`],
  ],
  [
    "of a damaged numbering beside the damaged newest one",
    (folder, quarantine) => {
      writeFileSync(join(folder, "numbering.json"), "");
      damage(join(folder, NEWEST), '"of":"i3"', '"of":"x3"');
      plant(quarantine, "numbering.json");
    },
    [`quarantined ${NEWEST}`, "renumbered numbering.json.2 1000003"],
  ],
  [
    "of a numbering that a newer program wrote: nothing is moved",
    (folder) => {
      writeFileSync(join(folder, "numbering.json"), '{"waymark":2,"what":"ever"}\n');
      damage(join(folder, FIRST), '"of":"i1"', '"of":"x1"');
    },
    ["left record", "left refused"],
  ],
  [
    "of a folder in the numbering's place: nothing is moved",
    (folder) => {
      mkdirSync(join(folder, "numbering.json"));
      damage(join(folder, NEWEST), '"of":"i3"', '"of":"x3"');
    },
    ["left record", "left numbering"],
  ],
  [
    "of leftovers, old and young",
    (folder) => {
      const [old, young] = [join(folder, ".lock-old"), join(folder, ".lock-young")];
      for (const [path, ageMs] of [
        [old, 7_200_000],
        [young, 120_000],
      ] as const) {
        mkdirSync(path);
        utimesSync(path, new Date(Date.now() - ageMs), new Date(Date.now() - ageMs));
      }
    },
    ["removed leftover", "left leftover"],
  ],
];

const taskCases: readonly Case[] = [
  [
    "of a line whose name is in quarantine already",
    (folder, quarantine) => {
      damage(join(folder, "checkpoints.json"), '"of":"i2"', '"of":"x2"');
      plant(quarantine, "checkpoint-2.json");
    },
    ["quarantined checkpoint-2.json.2"],
  ],
  [
    "of a damaged first line beside a damaged line",
    (folder, quarantine) => {
      damage(join(folder, "checkpoints.json"), '"lastSequence":3', '"lastSequence":7');
      damage(join(folder, "checkpoints.json"), '"of":"i2"', '"of":"x2"');
      plant(quarantine, "checkpoints.json");
    },
    ["quarantined checkpoint-2.json", "renumbered checkpoints.json.2 3"],
  ],
];

const kinds = [
  ...jsonCases.map((one) => ["json-file", one[0], newJsonStore, one] as const),
  ...taskCases.map((one) => ["task-file", one[0], newTaskStore, one] as const),
];

describe("a dry run of repair", () => {
  it.each(kinds)("of %s tells what the repair then does, and changes nothing: %s", async (_name, _what, make, one) => {
    const [, harm, told] = one;
    const { adapter, root } = await make();
    for (const id of ["i1", "i2", "i3"]) await adapter.append(draft("t", id));
    rmSync(join(root, "t", ".lock"), { recursive: true, force: true });
    harm(join(root, "t"), join(root, ".quarantine", "t"));

    const before = treeOf(root);
    const planned = await collect(adapter.repair({ dryRun: true, leftoversOlderThanMs: 3_600_000 }));
    expect(treeOf(root)).toEqual(before);
    const done = await collect(adapter.repair({ dryRun: false, leftoversOlderThanMs: 3_600_000 }));
    expect(planned).toEqual(done);
    const texts = done.map((step) => {
      const to = "to" in step ? step.to?.slice(join(root, ".quarantine", "t").length + 1) : step.finding.kind;
      return `${step.action} ${to}${"lastSequence" in step ? ` ${step.lastSequence}` : ""}`;
    });
    expect(texts).toEqual(told);
    for (const step of done) if ("to" in step && step.to !== undefined) expect(existsSync(step.to)).toBe(true);
  });
});
