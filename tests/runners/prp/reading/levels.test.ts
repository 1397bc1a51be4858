import { describe, expect, it } from "vitest";
import { brief, commandsIn, fence, gatesIn } from "./markdown.js";

const run = (command: string) => fence("bash", command);

describe("the levels of a PRP's validation section", () => {
  it("have any numbers, and come in the order of the numbers", () => {
    const gates = gatesIn(
      ...["### Level 5: Docs", run("five"), "### Level 1.5: Types", run("more")],
      ...["### Level 0: Setup", run("zero"), "### Level 1: Style", run("one")],
    );

    expect(brief(gates)).toEqual([
      [0, "Setup", "zero"],
      [1, "Style", "one"],
      [1.5, "Types", "more"],
      [5, "Docs", "five"],
    ]);
  });

  it("keep the order of the text if two have the same number", () => {
    const gates = gatesIn(
      "### Level 1: Style",
      run("a"),
      "### Level 2: Tests",
      run("b"),
      "### Level 1: Types",
      run("c"),
    );

    expect(brief(gates)).toEqual([
      [1, "Style", "a"],
      [1, "Types", "c"],
      [2, "Tests", "b"],
    ]);
  });

  it.each([
    "级别 1：语法",
    "Nivel 1: Sintaxis",
    "Nível 1 — Sintaxe",
    "Stufe 1: Syntax",
    "Niveau 1 : Syntaxe",
    "レベル1：構文",
    "Уровень 1. Синтаксис",
    "1. Syntax",
    "🧪 1) Syntax",
    "L1: Syntax",
  ])("have a number in any language: %s", (heading) => {
    const [gate] = gatesIn(`### ${heading}`, run("true"));

    expect(gate?.level).toBe(1);
    expect(heading.endsWith(gate?.description ?? "?")).toBe(true);
    expect(gate?.description).not.toContain("1");
  });

  it.each(["#### %", "###### %", "**%**", "**%:**", "- %"])("have headings of any kind: %s", (form) => {
    const code = form.startsWith("-") ? run("true").replace(/^/gm, "  ") : run("true");

    expect(gatesIn(form.replace("%", "Level 1: Style"), code)).toMatchObject([{ level: 1, command: "true" }]);
  });

  it("are the highest headings with a number and code; what is deeper belongs to them", () => {
    const gates = gatesIn(
      "### Level 1: Tests",
      "#### 1. Unit",
      run("unit"),
      "#### 2. All",
      run("all"),
      "### Level 2: Build",
      run("build"),
    );

    expect(brief(gates)).toEqual([
      [1, "Tests", "unit\nall"],
      [2, "Build", "build"],
    ]);
  });

  it("take their headings from bold lines if the list below has numbers too", () => {
    const gates = gatesIn("**Level 1: Style**", "1. Run it:", run("lint"), "**Level 2: Tests**", run("test"));

    expect(brief(gates)).toEqual([
      [1, "Style", "lint"],
      [2, "Tests", "test"],
    ]);
  });

  it("are counted if no heading has a number", () => {
    const gates = gatesIn("### Lint", run("lint"), "### Notes", "None.", "### Tests", run("test"));

    expect(brief(gates)).toEqual([
      [1, "Lint", "lint"],
      [2, "Tests", "test"],
    ]);
  });

  it("are one if the section has no headings", () => {
    expect(brief(gatesIn(run("lint"), "And then:", run("test")))).toEqual([[1, "Validation Loop", "lint\ntest"]]);
  });

  it("lose no commands under a heading without a number: they are a gate of the level before it", () => {
    const gates = gatesIn(
      run("npm ci"),
      ...["### Level 1: Style", run("lint"), "### Security", run("audit"), "### Expected results", "All pass."],
      ...["### Level 2: Tests", run("test")],
    );

    expect(brief(gates)).toEqual([
      [1, "Validation Loop", "npm ci"],
      [1, "Style", "lint"],
      [1, "Security", "audit"],
      [2, "Tests", "test"],
    ]);
  });

  it("aren't the items of a checklist, with numbers or without", () => {
    const gates = gatesIn(run("test"), "1. [ ] All tests pass", "2. [ ] No warnings", "- [ ] Step 3 is done");

    expect(brief(gates)).toEqual([[1, "Validation Loop", "test"]]);
  });

  it("stay without a command if a person checks", () => {
    expect(brief(gatesIn("### Level 1: Style", run("lint"), "### Level 2: By hand", "Look at it."))).toEqual([
      [1, "Style", "lint"],
      [2, "By hand", null],
    ]);
  });

  it("are named by the comments of one block, or of several", () => {
    const gates = gatesIn(
      fence("bash", "\n# Level 1: style\nlint\n\n# Level 2: tests\ntest"),
      fence("bash", "# Level 3\nbuild"),
    );

    expect(brief(gates)).toEqual([
      [1, "style", "\n# Level 1: style\nlint\n"],
      [2, "tests", "# Level 2: tests\ntest"],
      [3, "Validation Loop", "# Level 3\nbuild"],
    ]);
    expect(gates.map(({ line }) => line)).toEqual([11, 14, 19]);
    expect(gates[1]?.lines).toEqual([14, 15]);
  });

  it.each([
    "cd app\n# Step 1: lint\nlint\n# Step 2: test\ntest",
    "# Python 3 is needed\nlint\n# Node 20 too\ntest",
    "# Level 1: style\nlint",
  ])("aren't named by other comments: %j", (code) => {
    expect(commandsIn(fence("bash", code))).toEqual([code]);
  });

  it("aren't named by comments below a numbered heading", () => {
    const code = "# Step 1: lint\nlint\n# Step 2: types\ntypes";

    expect(commandsIn("### Level 1: Style", fence("bash", code), "### Level 2: Tests", run("test"))).toEqual([
      code,
      "test",
    ]);
  });

  it("know the line of each of their commands in the PRP", () => {
    const [gate] = gatesIn("### Level 1: Style", run("a\nb"), run("c"));

    expect(gate).toMatchObject({ line: 9, lines: [12, 13, 17] });
  });
});
