import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { writeMark } from "../../../runners/src/plans/done-mark.js";
import type { PlanItem } from "../../../runners/src/plans/plan.js";
import { parsePlan, readPlan } from "../../../runners/src/plans/read-plan.js";
import { tempFolder } from "../../support/temp-folder.js";

const LISTS = join(import.meta.dirname, "..", "..", "fixtures", "plans");

/** `2.1 after 1, optional` */
function describeItem({ id, status, beside, isOptional, isGroup, after, gates, checks }: PlanItem): string {
  const parts = [
    ...(status === "open" ? [] : [status]),
    ...(beside ? ["parallel"] : []),
    ...(isOptional ? ["optional"] : []),
    ...(isGroup ? ["group"] : []),
    ...(after.length > 0 ? [`after ${after.join(" ")}`] : []),
    ...[...gates, ...checks].map((gate) => `gate ${gate}`),
  ];
  return [id, ...parts].join(", ");
}

async function itemsOf(name: string): Promise<string[]> {
  return (await readPlan(join(LISTS, name))).items.map(describeItem);
}

function markdown(text: string): readonly PlanItem[] {
  return parsePlan(Buffer.from(text), "/p/tasks.md").items;
}

describe("a plan is read as a person reads it", () => {
  it("from spec-kit: parallel items, dependencies, and a checkpoint as the phase's gate", async () => {
    expect(await itemsOf("phases.md")).toEqual([
      "T001, done",
      "T002, parallel",
      "T003, parallel, gate npm run lint, gate npm test",
      "T004, after T002 T003",
    ]);
    const { items } = await readPlan(join(LISTS, "phases.md"));
    expect(items[3]?.text).toBe("It exports `greet(name)`.");
  });

  it("from numbered lists: an item in another one comes first, and bullets without a box are text", async () => {
    expect(await itemsOf("numbered.md")).toEqual(["1.1, done", "1.2.1", "1.2, after 1.2.1", "2.1"]);
    const { items } = await readPlan(join(LISTS, "numbered.md"));
    expect(items[2]?.text).toBe("- in batches of 1,000");
  });

  it("from Kiro: parents end after their children, `*` is optional, `[-]` is begun", async () => {
    expect(await itemsOf("nested.md")).toEqual(["1", "2.1", "2.2, optional", "2, group, after 2.1", "3, begun"]);
  });

  it("from prd.json: by priority, with the gates of its criteria", async () => {
    expect(await itemsOf("prd.json")).toEqual([
      "US-001, done, gate npm test",
      "US-002, gate npm test -- greet, gate Typecheck passes",
      "US-003, gate Typecheck passes",
    ]);
  });

  it("from Taskmaster: subtasks, then their task; a deferred one stays deferred", async () => {
    expect(await itemsOf("tasks.json")).toEqual([
      "1, done, gate npm test",
      "2.1, done, after 1",
      "2.2, after 1 2.1",
      "2, group, after 1 2.1 2.2",
      "3, deferred, after 2",
    ]);
  });

  it("takes boxes without an id within an item as its parts", () => {
    const [item, ...others] = markdown("- [ ] **Task 1: Do it** (AC: 1)\n  - [ ] Step 1: first\n  - [x] then\n");
    expect(others).toEqual([]);
    expect([item?.id, item?.title, item?.marks.map(({ isDone }) => isDone)]).toEqual([
      "1",
      "Do it (AC: 1)",
      [false, false, true],
    ]);
  });

  it("leaves out boxes of checklists, code blocks and comments", () => {
    const text =
      "# Plan\n- [ ] Real work\n## Definition of Done\n- [ ] reviewed\n## More\n```\n- [ ] code\n```\n<!--\n- [ ] no\n-->\n1. [ ] Also real\n";
    expect(markdown(text).map(({ id }) => id)).toEqual(["real-work", "also-real"]);
  });

  it("gives items with the same name different ids", () => {
    expect(markdown("- [ ] 1 A\n## B\n- [ ] 1 A\n- [ ] Do\n- [ ] Do\n").map(({ id }) => id)).toEqual([
      ...["1", "1~2", "do", "do~2"],
    ]);
  });

  it.each([
    ["- [ ] 1 Add `npm run lint` to package.json", []],
    ["- [ ] 1 Set up X\n  - Tests pass: `uv run pytest -q`", ["uv run pytest -q"]],
    ["- [ ] 1 Run `npm install zod`", []],
    ["- [ ] 1 Verify `pnpm build` and `pnpm test` succeed", ["pnpm build", "pnpm test"]],
    ["- [ ] 1 Run `npm run dev` and check the page", []],
    ["- [ ] 1 Check `npm test -- <file>` passes", []],
    ["- [ ] 1 The suite\n  - npm test -- a exits with 0", ["npm test -- a"]],
  ])("finds the gates that %j names", (text, gates) => {
    expect(markdown(text)[0]?.gates).toEqual(gates);
  });

  it.each([
    ["plan.md", "# Plan\n\n- one\n- two\n", "Markdown without check boxes, with 1 headings and 2 list items"],
    ["PRP.md", "# X\n\n## Validation Loop\n", "a PRP; waymark prp run runs it"],
    ["a.json", '{"prd":{}}', "JSON with prd"],
    ["a.json", "{", "not JSON"],
    ["a.json", '{"a":{"tasks":[]},"b":{"tasks":[]}}', "a file of several lists, so name one (--tag): a, b"],
    ["plan.yaml", "a: 1", "YAML; waymark oneshot runs plans of commands in YAML"],
  ])("names what %s is if it isn't a plan", (name, text, what) => {
    expect(() => parsePlan(Buffer.from(text), `/p/${name}`)).toThrow(`it is ${what}. Supported are Markdown lists`);
  });
});

describe("a done-mark", () => {
  async function planOf(name: string, text: string | Buffer) {
    const path = join(await tempFolder(), name);
    await writeFile(path, text);
    const mark = async (id: string, isDone = true) => {
      const item = (await readPlan(path)).items.find((each) => each.id === id);
      if (item === undefined) throw new Error(`no ${id}`);
      await writeMark({ path }, item, isDone);
      return readFile(path);
    };
    return { path, mark };
  }

  it("changes its own byte alone: line ends, other bytes and the byte order mark stay", async () => {
    const before = Buffer.concat([
      Buffer.from("\ufeff- [ ] 1 Erste\r\n\t- bullet\r\n* [ ] 2 Zw\u00f6lf\n+ [ ] 3 "),
      Buffer.from([0xff, 0xfe, 0x0a]),
      Buffer.from("- [ ]* 4 last, without a line end"),
    ]);
    const { mark } = await planOf("tasks.md", before);
    const expected = (...signs: string[]) => {
      let nth = 0;
      return Buffer.from(
        before.toString("latin1").replace(/\[ \]/g, () => `[${signs[nth++] ?? " "}]`),
        "latin1",
      );
    };

    expect(await mark("1")).toEqual(expected("x"));
    expect(await mark("3")).toEqual(expected("x", " ", "x"));
    expect(await mark("4")).toEqual(expected("x", " ", "x", "x"));
    expect(await mark("1", false)).toEqual(expected(" ", " ", "x", "x"));
  });

  it("also marks the item's parts", async () => {
    const { mark } = await planOf("story.md", "- [ ] Task 1: A\n  - [ ] one\n  - [x] two\n- [ ] Task 2: B\n");
    expect(`${await mark("1")}`).toBe("- [x] Task 1: A\n  - [x] one\n  - [x] two\n- [ ] Task 2: B\n");
  });

  it.each([
    [
      "prd.json",
      "US-003",
      '"Typecheck passes"], "priority": 3, "passes": false',
      '"Typecheck passes"], "priority": 3, "passes": true',
    ],
    [
      "tasks.json",
      "2.2",
      '"title": "French", "description": "", "status": "pending"',
      '"title": "French", "description": "", "status": "done"',
    ],
    ["tasks.json", "2", '"description": "greet()", "status": "pending"', '"description": "greet()", "status": "done"'],
  ])("is written into %s in place", async (name, id, open, done) => {
    const before = await readFile(join(LISTS, name), "utf8");
    const { mark } = await planOf(name, before);
    const after = `${await mark(id)}`;
    expect(before).toContain(open);
    expect(after).toBe(before.replace(open, done));
    expect(`${await mark(id, false)}`).toBe(before);
  });

  it("is added to a story that has none", async () => {
    const { mark } = await planOf("prd.json", '\ufeff{"userStories":[{"id":"A","title":"t"}]}');
    expect(`${await mark("A")}`).toBe('\ufeff{"userStories":[{ "passes": true,"id":"A","title":"t"}]}');
  });

  it("keeps what others have written since the plan was read, and finds the item in its new place", async () => {
    const { path } = await planOf("tasks.md", "- [ ] 1 A\n- [ ] 2 B\n");
    const item = (await readPlan(path)).items[1];
    await writeFile(path, "# New\n\n- [x] 1 A\n- [ ] 3 C\n- [ ] 4 B\n");
    if (item) await writeMark({ path }, item, true);
    expect(await readFile(path, "utf8")).toBe("# New\n\n- [x] 1 A\n- [ ] 3 C\n- [x] 4 B\n");
  });

  it("is refused if the item is gone, and the file stays", async () => {
    const { path } = await planOf("tasks.md", "- [ ] 1 A\n");
    await expect(writeMark({ path }, { id: "2", title: "B" }, true)).rejects.toMatchObject({ code: "PLAN_CHANGED" });
    expect(await readFile(path, "utf8")).toBe("- [ ] 1 A\n");
  });
});
