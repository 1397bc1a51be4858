import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type OneshotPlan, type RunnerError, runOneshot } from "waymark-runners/oneshot";
import { parsePlan } from "../../../runners/src/oneshot/plan-file.js";
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

/** The message about an invalid plan. */
function issuesOf(source: string, path = "plan.yaml"): readonly string[] {
  try {
    parsePlan(source, path);
  } catch (error) {
    const { code, issues, message } = error as RunnerError;
    expect(code).toBe("PLAN_INVALID");
    expect(message).toContain(`The plan ${path} is not valid; nothing was run.`);
    for (const issue of issues) expect(message).toContain(`\n  ${issue}`);
    return issues;
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
    expect(parsePlan(json, "plan.yaml")).toEqual(WORKSTREAMS);
  });

  it("may use YAML's aliases", () => {
    const plan = "workstreams:\n- &a {id: a, command: &c 'true'}\n- {id: b, command: *c}\n";

    expect(parsePlan(plan, "plan.yaml")).toMatchObject([{ command: "true" }, { id: "b", command: "true" }]);
  });
});

describe("an invalid plan is refused by field", () => {
  it.each([
    ["empty", "", ["the plan: Invalid input: expected object, received null"]],
    ["a text", "hello", ["the plan: Invalid input: expected object, received string"]],
    ["without workstreams", "{}", ["workstreams: is missing"]],
    ["with no workstream", "workstreams: []", ["workstreams: must not be empty: there is nothing to do"]],
    [
      "with text for workstreams",
      "workstreams: a",
      ["workstreams: must be a list of workstreams, or a folder together with a command"],
    ],
    [
      "with wrong fields",
      "workstreams:\n- id: 01\n  command: true\n- command: x\n- id: ''\n  command: ' '\n- y\n",
      [
        "workstreams[0].id: must be text; put a number or true in quotes",
        "workstreams[0].command: must be text; put a number or true in quotes",
        "workstreams[1].id: is missing",
        "workstreams[2].id: must be one line of text, and not empty",
        "workstreams[2].command: must not be empty",
        "workstreams[3]: Invalid input: expected object, received string",
      ],
    ],
    [
      "with misspelled keys",
      "workstream: []\nworkstreams:\n- id: a\n  command: x\n  depend_on: [b]\n",
      ['workstreams[0]: Unrecognized key: "depend_on"', 'the plan: Unrecognized key: "workstream"'],
    ],
    [
      "with text for dependencies",
      "workstreams:\n- id: a\n  command: x\n  depends_on: b\n",
      ["workstreams[0].depends_on: must be a list of ids"],
    ],
    [
      "with an id twice",
      "workstreams:\n- {id: a, command: x}\n- {id: b, command: x}\n- {id: a, command: x}\n",
      ['workstreams[2].id: "a" is the id of workstreams[0] already'],
    ],
    [
      "with unknown ids",
      "workstreams:\n- id: a\n  command: x\n  depends_on: [b, a1]\n",
      [
        'workstreams[0].depends_on: "a" depends on "b", which the plan doesn\'t have',
        'workstreams[0].depends_on: "a" depends on "a1", which the plan doesn\'t have',
      ],
    ],
    [
      "with a cycle",
      "workstreams:\n- {id: start, command: x, depends_on: [a]}\n- {id: a, command: x, depends_on: [b]}\n" +
        "- {id: b, command: x, depends_on: [c]}\n- {id: c, command: x, depends_on: [a]}\n",
      ['workstreams wait for each other: "a" depends on "b" depends on "c" depends on "a"'],
    ],
    [
      "with a workstream that waits for itself",
      "workstreams:\n- {id: a, command: x, depends_on: [a]}\n",
      ['workstreams wait for each other: "a" depends on "a"'],
    ],
  ])("%s", (_what, source, expected) => {
    expect(issuesOf(source)).toEqual(expected);
  });

  it.each([
    ["a key twice", "workstreams:\n- id: a\n  id: b\n  command: x\n", /^Map keys must be unique at line 3, column 3$/],
    ["an open quote", "workstreams:\n- id: 'a\n", /^Missing closing 'quote at line 3, column 1$/],
    [
      "two documents",
      `${YAML}---\na: 1\n`,
      /^it has more than one YAML document at line 10, column 1; .*--workstreams/,
    ],
    ["an unknown alias", "workstreams: *a", /^Unresolved alias/],
  ])("with its line, if the YAML has %s", (_what, source, expected) => {
    expect(issuesOf(source)).toEqual([expect.stringMatching(expected)]);
  });

  it("in JSON's words if the file is JSON", () => {
    expect(issuesOf('{\n  "workstreams": [\n', "plan.json")).toEqual([expect.stringContaining("JSON")]);
  });

  it("if aliases would fill the memory", () => {
    const bomb = ["a: &a [x, x, x, x, x, x, x, x, x]"];
    for (let i = 1; i < 12; i++) {
      const [own, other] = [String.fromCharCode(97 + i), String.fromCharCode(96 + i)];
      bomb.push(`${own}: &${own} [${Array.from({ length: 9 }, () => `*${other}`).join(", ")}]`);
    }

    expect(issuesOf(bomb.join("\n"))).toEqual([expect.stringContaining("Excessive alias count")]);
  });
});

describe("runOneshot", () => {
  it.each([
    ["a cycle", chain(["a", "b"], ["b", "a"]), "wait for each other"],
    ["an unknown id", chain("a", ["b", "x"]), '"b" depends on "x"'],
    ["an id twice", chain("a", "b", "a"), 'workstreams[2].id: "a"'],
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

  it("names a plan's file that doesn't exist", async () => {
    const project = await Project.create();
    const path = join(project.path, "none.yaml");

    await expect(project.run(path)).rejects.toMatchObject({
      code: "PLAN_UNREADABLE",
      message: expect.stringContaining(path),
    });
  });

  it.each(["yaml", "yml", "json"])("finds .sdp/plans/<feature>.%s by default", async (extension) => {
    const project = await Project.create();
    await mkdir(join(project.path, ".sdp", "plans"), { recursive: true });
    await project.write(`.sdp/plans/F01.${extension}`, JSON.stringify(chain("a")));

    const { success } = await runOneshot("F01", { baseDir: project.path });

    expect(success).toBe(true);
    expect(await project.log()).toEqual(["a"]);
  });

  it("reports where it looked for a plan", async () => {
    const project = await Project.create();

    await expect(runOneshot("F01", { baseDir: project.path })).rejects.toMatchObject({
      code: "PLAN_UNREADABLE",
      message: expect.stringContaining(join(".sdp", "plans", "F01.yaml, .yml, .json")),
    });
  });
});
