import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type OneshotError, type OneshotPlan, runOneshot } from "waymark/oneshot";
import { parsePlan } from "../../../systems/oneshot/plan-file.js";
import { chain, Project } from "./project.js";

const YAML = `# The plan of F01
workstreams:
  - id: 00-001-01
    command: npm run build
  - id: 00-001-02
    command: |
      npm run lint
      npm test
    depends_on: [00-001-01]
`;
const WORKSTREAMS = [
  { id: "00-001-01", command: "npm run build", dependsOn: [] },
  { id: "00-001-02", command: "npm run lint\nnpm test\n", dependsOn: ["00-001-01"] },
];

/** What is said of a plan that is none: each as `line:column: message`. */
function complaints(source: string): string[] {
  try {
    parsePlan(source, "plan.yaml");
  } catch (error) {
    const { code, issues, message } = error as OneshotError;
    expect(code).toBe("PLAN_INVALID");
    expect(message).toContain("The plan plan.yaml is not valid; nothing was run.");
    return issues.map((issue) => {
      expect(message).toContain(`plan.yaml:${issue.line}:${issue.column}: ${issue.message}`);
      return `${issue.line}:${issue.column}: ${issue.message}`;
    });
  }
  throw new Error("The plan is valid");
}

describe("a plan", () => {
  it("is read from YAML", () => {
    expect(parsePlan(YAML, "plan.yaml")).toEqual(WORKSTREAMS);
    expect(parsePlan(YAML.replaceAll("\n", "\r\n"), "plan.yaml")).toEqual(WORKSTREAMS);
  });

  it.each([undefined, 2, "\t"])("is read from JSON, indented by %j", (indent) => {
    const json = JSON.stringify({ workstreams: WORKSTREAMS }, undefined, indent);

    expect(parsePlan(json, "plan.json")).toEqual(WORKSTREAMS);
    expect(parsePlan(json.replaceAll("dependsOn", "depends_on"), "plan.json")).toEqual(WORKSTREAMS);
  });

  it("may name parts once and use them again", () => {
    const plan = "workstreams:\n- &a {id: a, command: &c 'true'}\n- {id: b, command: *c}\n";

    expect(parsePlan(plan, "plan.yaml")).toMatchObject([{ command: "true" }, { id: "b", command: "true" }]);
  });
});

describe("a plan that is none is refused with the line", () => {
  it.each([
    ["empty", "", ['1:1: the plan must be an object with the list "workstreams"']],
    ["a text", "hello", ['1:1: the plan must be an object with the list "workstreams"']],
    ["without workstreams", "\n{}\n", ["2:1: workstreams is missing"]],
    ["with none", "workstreams: []\n", ["1:14: workstreams must not be empty: there would be nothing to do"]],
    ["whose workstreams are none", "workstreams: a\n", ["1:14: workstreams must be a list of workstreams"]],
    [
      "of the wrong parts",
      "workstreams:\n- id: 01\n  command: true\n- command: x\n- id: ''\n  command: ' '\n- y\n",
      [
        '2:7: workstreams[0].id must be text: write it in quotes, "1"',
        '3:12: workstreams[0].command must be text: write it in quotes, "true"',
        "4:3: workstreams[1].id is missing",
        "5:7: workstreams[2].id must be text of one line, and not empty",
        "6:12: workstreams[2].command must not be empty",
        '7:3: workstreams[3] must be an object with "id", "command" and, if it depends on others, "depends_on"',
      ],
    ],
    [
      "with misspelled keys",
      "workstream: []\nworkstreams:\n- id: a\n  command: x\n  depend_on: [b]\n",
      [
        '5:3: workstreams[0] has "depend_on", which means nothing here. There are: id, command, depends_on',
        '1:1: the plan has "workstream", which means nothing here. There are: workstreams',
      ],
    ],
    [
      "whose dependencies are no list",
      "workstreams:\n- id: a\n  command: x\n  depends_on: b\n",
      ["4:15: workstreams[0].depends_on must be a list of ids"],
    ],
    [
      "that says one thing twice",
      "workstreams:\n- id: a\n  command: x\n  depends_on: []\n  dependsOn: []\n",
      ['2:3: workstreams[0] has both "depends_on" and "dependsOn": put them into one'],
    ],
    ["with a key twice", "workstreams:\n- id: a\n  id: b\n  command: x\n", ["3:3: Map keys must be unique"]],
    ["that is no YAML", "workstreams:\n- id: 'a\n", [expect.stringMatching(/^3:1: Missing closing 'quote/)]],
    ["of two documents", `${YAML}---\na: 1\n`, [expect.stringMatching(/^10:1: .*multiple documents/)]],
  ])("%s", (_what, source, expected) => {
    expect(complaints(source)).toEqual(expected);
  });

  it("in JSON too", () => {
    expect(complaints('{\n  "workstreams": [\n    { "id": "a", "command": 5 }\n  ]\n}')).toEqual([
      '3:29: workstreams[0].command must be text: write it in quotes, "5"',
    ]);
    expect(complaints('{\n  "workstreams": [\n')).toHaveLength(2);
  });

  it("with an id that comes twice", () => {
    expect(complaints("workstreams:\n- {id: a, command: x}\n- {id: b, command: x}\n- {id: a, command: x}\n")).toEqual([
      '4:8: workstreams[2].id "a" is the id of workstreams[0] already',
    ]);
  });

  it("with an id that isn't there", () => {
    expect(complaints("workstreams:\n- id: a\n  command: x\n  depends_on:\n  - b\n  - a1\n")).toEqual([
      '5:5: "a" depends on "b", which the plan doesn\'t have',
      '6:5: "a" depends on "a1", which the plan doesn\'t have',
    ]);
  });

  it("with a cycle, which it shows", () => {
    const entries = ["{id: start, command: x, depends_on: [a]}", "{id: a, command: x, depends_on: [b]}"];
    const rest = ["{id: b, command: x, depends_on: [c]}", "{id: c, command: x, depends_on: [a]}"];
    expect(complaints(`workstreams:\n${[...entries, ...rest].map((entry) => `- ${entry}\n`).join("")}`)).toEqual([
      '5:36: workstreams wait for each other: "a" depends on "b" depends on "c" depends on "a"',
    ]);
    expect(complaints("workstreams:\n- {id: a, command: x, depends_on: [a]}\n")).toEqual([
      '2:36: workstreams wait for each other: "a" depends on "a"',
    ]);
  });

  it("but not without a cycle, however deep and wide it is", () => {
    const count = 5_000;
    const deep = Array.from({ length: count }, (_, i) => ({
      id: `w${i}`,
      command: "x",
      depends_on: [`w${i + 1}`, `w${i + 2}`].slice(0, Math.max(0, count - 1 - i)),
    }));

    expect(parsePlan(JSON.stringify({ workstreams: deep }), "plan.json")).toHaveLength(count);
  });

  it("with aliases that would fill the memory", () => {
    const bomb = ["a: &a [x, x, x, x, x, x, x, x, x]"];
    for (let i = 1; i < 12; i++) {
      const [own, other] = [String.fromCharCode(97 + i), String.fromCharCode(96 + i)];
      bomb.push(`${own}: &${own} [${Array.from({ length: 9 }, () => `*${other}`).join(", ")}]`);
    }

    expect(complaints(bomb.join("\n"))).toEqual([expect.stringContaining("Excessive alias count")]);
  });
});

describe("runOneshot", () => {
  it.each([
    ["a cycle", chain(["a", "b"], ["b", "a"]), "wait for each other"],
    ["an unknown id", chain("a", ["b", "x"]), '"b" depends on "x"'],
    ["an id twice", chain("a", "b", "a"), 'workstreams[2].id "a"'],
    ["a NUL in a command", { workstreams: [{ id: "a", command: "\0" }] }, "NUL"],
    ["a misspelled key", { workstreams: [{ id: "a", command: "true", needs: [] }] }, '"needs"'],
  ])("refuses a plan with %s before anything runs or is written", async (_what, plan, message) => {
    const project = await Project.create();

    await expect(project.run(plan as OneshotPlan)).rejects.toMatchObject({
      code: "PLAN_INVALID",
      message: expect.stringContaining(message),
    });
    expect(await project.log()).toEqual([]);
    await expect(project.files()).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("says which file isn't there", async () => {
    const project = await Project.create();
    const path = join(project.path, "none.yaml");

    await expect(project.run(path)).rejects.toMatchObject({
      code: "PLAN_UNREADABLE",
      message: expect.stringContaining(path),
    });
  });

  it.each(["yaml", "yml", "json"])("finds .sdp/plans/<feature>.%s by itself", async (extension) => {
    const project = await Project.create();
    await mkdir(join(project.path, ".sdp", "plans"), { recursive: true });
    await project.write(`.sdp/plans/F01.${extension}`, JSON.stringify(chain("a")));

    const { success } = await runOneshot("F01", { baseDir: project.path });

    expect(success).toBe(true);
    expect(await project.log()).toEqual(["a"]);
  });

  it("says where it looked for one", async () => {
    const project = await Project.create();

    await expect(runOneshot("F01", { baseDir: project.path })).rejects.toMatchObject({
      code: "PLAN_UNREADABLE",
      message: expect.stringContaining(join(".sdp", "plans", "F01.yaml, .yml, .json")),
    });
  });
});
