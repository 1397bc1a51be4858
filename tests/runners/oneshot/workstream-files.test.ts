import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadPlan, type RunnerError } from "waymark-runners/oneshot";
import { recordingLogger } from "../../support/recording-logger.js";
import { Project } from "./project.js";

const FOLDER = "docs/workstreams";
/** Notes its workstream and its file. */
const COMMAND = 'echo "$WS" >> log; test -f "$WS_FILE"; head -2 "$WS_FILE" >> files';

interface Fields {
  readonly ws_id?: string;
  readonly feature?: string;
  readonly status?: string;
  readonly depends_on?: string;
}

function markdown(fields: Fields, newline = "\n"): string {
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
  return ["---", ...lines, "---", "", "# A workstream", ""].join(newline);
}

/** A project with workstream files, given as text or as the fields of a workstream of F01. */
async function projectWith(files: Readonly<Record<string, string | Fields>>) {
  const project = await Project.create();
  const put = async (name: string, file: string | Fields) => {
    const path = join(project.path, FOLDER, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, typeof file === "string" ? file : markdown({ feature: "F01", status: "backlog", ...file }));
  };
  for (const [name, file] of Object.entries(files)) await put(name, file);
  const plan = { workstreams: FOLDER, command: COMMAND };
  const load = () => loadPlan({ featureId: "F01", baseDir: project.path, plan });
  const issues = async () => {
    const error = await load().then(
      () => undefined,
      (error: RunnerError) => error,
    );
    expect(error?.code).toBe("PLAN_INVALID");
    return error?.issues;
  };
  return { project, put, plan, load, issues };
}

describe("a plan of workstream files", () => {
  it("runs the feature's workstreams after their dependencies, each with its id and its file", async () => {
    const { project, plan } = await projectWith({
      "backlog/b.md": { ws_id: "00-001-02", depends_on: "[00-001-10]" },
      "backlog/a.md": { ws_id: "00-001-10" },
      "other.md": { ws_id: "00-002-01", feature: "F02" },
    });
    const { result, events } = await project.run(plan);

    expect(result).toMatchObject({ success: true, completed: ["00-001-10", "00-001-02"] });
    expect(await project.log()).toEqual(["00-001-10", "00-001-02"]);
    expect(await readFile(join(project.path, "files"), "utf8")).toBe("---\nfeature: F01\n---\nfeature: F01\n");
    expect(events[0]).toMatchObject({
      type: "runStarted",
      workstreams: [{ id: "00-001-02", command: COMMAND, file: join(project.path, FOLDER, "backlog/b.md") }, {}],
    });
  });

  it("orders them by id, numbers as numbers", async () => {
    const { load } = await projectWith({
      "x.md": { ws_id: "WS-10" },
      "y.md": { ws_id: "WS-9" },
      "z.md": { ws_id: "WS-9b" },
    });
    expect((await load()).workstreams.map(({ id }) => id)).toEqual(["WS-9", "WS-9b", "WS-10"]);
  });

  it("doesn't run those that their authors have completed, and changes no file", async () => {
    const { project, plan } = await projectWith({
      "a.md": { ws_id: "a", status: "completed", depends_on: "gone" },
      "b.md": { ws_id: "b", depends_on: "a" },
    });
    const before = await readFile(join(project.path, FOLDER, "b.md"), "utf8");
    const { result, events } = await project.run(plan);

    expect(result).toMatchObject({ success: true, completed: ["a", "b"] });
    expect(await project.log()).toEqual(["b"]);
    expect(events[0]).toMatchObject({
      workstreams: [
        { id: "a", completed: true },
        { id: "b", completed: false },
      ],
    });
    expect(await readFile(join(project.path, FOLDER, "b.md"), "utf8")).toBe(before);
  });

  it("that are all completed runs nothing and succeeds", async () => {
    const { project, plan } = await projectWith({ "a.md": { ws_id: "a", status: "completed" } });
    expect((await project.run(plan)).result).toMatchObject({ success: true, completed: ["a"] });
    expect([await project.log(), await project.files()]).toEqual([[], []]);
  });

  it("keeps its runs' completions apart from the authors' statuses, which may be taken back", async () => {
    const { project, plan, put } = await projectWith({
      "a.md": { ws_id: "a", status: "completed" },
      "b.md": { ws_id: "b" },
      "c.md": { ws_id: "c", depends_on: "b" },
    });
    const failing = { ...plan, command: `${COMMAND}; test "$WS" != c` };
    expect((await project.run(failing)).result).toMatchObject({ success: false, completed: ["a", "b"] });
    expect(await project.file()).toMatchObject({
      completed_ws: ["b"],
      current_ws: "c",
      waymark: { workstreams: FOLDER, command: failing.command },
    });

    await put("a.md", { ws_id: "a", status: "backlog" });
    await put("c.md", { ws_id: "c", status: "completed" });
    const { result } = await project.run(plan, { resume: true });
    expect(result).toMatchObject({ success: true, completed: ["c", "b", "a"] });
    expect(await project.log()).toEqual(["b", "c", "a"]);
  });

  it("is found again by a resume without a plan, and reads the files again", async () => {
    const { project, plan, put } = await projectWith({ "a.md": { ws_id: "a" }, "b.md": { ws_id: "b" } });
    await project.run({ ...plan, command: 'echo "$WS" >> log; test "$WS" = a || test -e mended' });
    await put("new.md", { ws_id: "c" });
    await project.write("mended");
    const { output, run } = project.spawn(undefined, { resume: true });
    await run;
    await output.until(/"success":true/);
    expect(await project.log()).toEqual(["a", "b", "b", "c"]);
  });

  it("may stand in a plan file", async () => {
    const { project } = await projectWith({ "a.md": { ws_id: "a" } });
    const yaml = await project.write("plan.yaml", `workstreams: ${FOLDER}\ncommand: echo "$WS" >> log\n`);
    expect((await project.run(yaml)).result.success).toBe(true);
    expect(await project.log()).toEqual(["a"]);
  });

  it("passes ids to the command as data, whatever they contain", async () => {
    const id = `a b"; touch 'hacked' $(touch hacked) \\`;
    const { project, plan } = await projectWith({ "it's $HOME.md": { ws_id: JSON.stringify(id) } });
    expect((await project.run(plan)).result.success).toBe(true);
    expect(await project.log()).toEqual([id]);
  });

  it("warns of a command that names no workstream, because a shell has replaced $WS in double quotes", async () => {
    const { project, plan } = await projectWith({ "a.md": { ws_id: "a" } });
    const logger = recordingLogger();
    await project.run({ ...plan, command: "true @build" }, { logger });
    expect(logger.lines).toMatchObject([
      { level: "warn", message: expect.stringContaining("neither $WS nor $WS_FILE") },
    ]);
  });
});

describe("front matter", () => {
  it.each([
    ["a list", "\n  - x  # first\n  - y", ["x", "y"]],
    ["a list without indent", "\n- x\n- y", ["x", "y"]],
    ["an inline list", '[x, "y"]', ["x", "y"]],
    ["a single text", "x", ["x"]],
    ["a text of several", "x, y", ["x", "y"]],
    ["nothing", "", []],
    ["an empty list", "[]", []],
    ["null", "null", []],
    ["None", "None", []],
    ["a list of None", "[None]", []],
  ])("may have %s for depends_on", async (_what, depends_on, expected) => {
    const files = { "a.md": { ws_id: "a", depends_on }, "x.md": { ws_id: "x" }, "y.md": { ws_id: "y" } };
    const { load } = await projectWith(files);
    expect((await load()).workstreams.find(({ id }) => id === "a")?.dependsOn).toEqual(expected);
  });

  it.each([
    ["CRLF", markdown({ ws_id: "010", feature: "F01" }, "\r\n")],
    ["a byte order mark", `\uFEFF${markdown({ ws_id: "010", feature: "F01" })}`],
    ["a text in quotes", markdown({ ws_id: '"010"', feature: "'F01'" })],
    ["a comment", markdown({ ws_id: "010 # the first", feature: "F01" })],
    ["no rest behind it", "---\nws_id: 010\nfeature: F01\n---"],
    ["the other word for a feature", "---\nws_id: 010\nfeature_id: F01\n---\n"],
  ])("is read with %s", async (_what, text) => {
    const { load } = await projectWith({ "a.md": text });
    expect((await load()).workstreams).toMatchObject([{ id: "010", isCompleted: false }]);
  });

  it("makes a workstream only with a ws_id and the feature, and skips other files", async () => {
    const { load } = await projectWith({
      "a.md": { ws_id: "a" },
      "README.md": "# Workstreams of F01\n\nws_id: none\n",
      "INDEX.md": "---\nfeature: F01\ntitle: All\n---\n",
      "no-feature.md": "---\nws_id: n\nstatus: backlog\n---\n",
      "broken.md": "---\nws_id: z\ntitle: a: b\nfeature: F02\n---\n",
      "quoted.md": `Text first.\n\n${markdown({ ws_id: "q", feature: "F01" })}`,
      "notes.txt": markdown({ ws_id: "t", feature: "F01" }),
    });
    expect((await load()).workstreams.map(({ id }) => id)).toEqual(["a"]);
  });
});

it.each(["completed", "done"])(
  "a workstream with the status %s isn't run, and others may depend on it",
  async (status) => {
    const { load } = await projectWith({
      "a.md": { ws_id: "a", status },
      "b.md": { ws_id: "b", depends_on: "[a, other]" },
      "other.md": { ws_id: "other", feature: "F02", status },
    });
    const { workstreams } = await load();
    expect(workstreams.map(({ id, isCompleted }) => [id, isCompleted])).toEqual([
      ["a", true],
      ["b", false],
    ]);
  },
);

describe("a plan of workstream files is refused, by file, where", () => {
  const docs = (name: string) => `${FOLDER}/${name}`;

  it("another feature's workstream is needed and not completed", async () => {
    const { issues } = await projectWith({
      "a.md": { ws_id: "a", depends_on: "[done, open, bare, lost]" },
      "done.md": { ws_id: "done", feature: "F02", status: "completed" },
      "open.md": { ws_id: "open", feature: "F02", status: "in_progress" },
      "bare.md": "---\nws_id: bare\n---\n",
    });
    expect(await issues()).toEqual([
      `${docs("a.md")}: "a" depends on "open", which is not completed: ${docs("open.md")} is of feature "F02" and has the ` +
        'status "in_progress"',
      `${docs("a.md")}: "a" depends on "bare", which is not completed: ${docs("bare.md")} names no feature and has no status`,
      `${docs("a.md")}: "a" depends on "lost", which no file has as its ws_id`,
    ]);
  });

  it("an id is in two files", async () => {
    const { issues } = await projectWith({
      "backlog/a.md": { ws_id: "a" },
      "done/a.md": { ws_id: "a", feature: "F02" },
    });
    expect(await issues()).toEqual([`ws_id "a" is in 2 files: ${docs("backlog/a.md")}, ${docs("done/a.md")}`]);
  });

  it.each(["complete", "superseded", "blocked"])("a status is %s: nothing is run by a guess", async (status) => {
    const { issues } = await projectWith({ "a.md": { ws_id: "a", status } });
    expect(await issues()).toEqual([
      expect.stringContaining(`${docs("a.md")}: its status "${status}" doesn't say whether it is to be run.`),
    ]);
  });

  it("they wait for each other", async () => {
    const { issues } = await projectWith({
      "a.md": { ws_id: "a", depends_on: "b" },
      "b.md": { ws_id: "b", depends_on: "a" },
    });
    expect(await issues()).toEqual(['workstreams wait for each other: "a" depends on "b" depends on "a"']);
  });

  it("a file that seems to be the feature's, or needed, can't be read", async () => {
    const { issues } = await projectWith({
      "a.md": { ws_id: "a", depends_on: "z" },
      "b.md": "---\nws_id: b\ntitle: a: b\nfeature: F01\n---\n",
      "c.md": "---\nws_id: [c]\nfeature: F01\n---\n",
    });
    expect(await issues()).toEqual([
      `${docs("b.md")}: its front matter isn't YAML: Nested mappings are not allowed in compact mappings at line 2, column 8`,
      `${docs("c.md")}: its ws_id is not one line of text`,
      `${docs("a.md")}: "a" depends on "z", which no file has as its ws_id`,
    ]);
  });

  it("no file is the feature's: the features that are there are named", async () => {
    const { issues } = await projectWith({
      "a.md": { ws_id: "a", feature: "F02" },
      "b.md": { ws_id: "b", feature: "F10" },
    });
    expect(await issues()).toEqual([
      'no file has a ws_id and "feature: F01" in its front matter; the files name the features F02, F10',
    ]);
  });

  it("no feature is named, as by a check of a plan file alone", async () => {
    const { project, plan } = await projectWith({ "a.md": { ws_id: "a" } });
    await expect(loadPlan({ featureId: "", baseDir: project.path, plan })).rejects.toThrow(
      "name the feature whose workstreams are to run",
    );
  });

  it("there is no folder", async () => {
    const { project, plan } = await projectWith({});
    await expect(project.run(plan)).rejects.toMatchObject({
      code: "PLAN_UNREADABLE",
      message: expect.stringContaining(`The workstreams in ${join(project.path, FOLDER)} can't be read: ENOENT`),
    });
  });
});

describe("a plan file that is Markdown", () => {
  it.each(["plan.md", "PLAN.MARKDOWN"])("is refused, and the error says what to do: %s", async (name) => {
    const project = await Project.create();
    const path = await project.write(name, markdown({ ws_id: "a", feature: "F01" }));
    await expect(project.run(path)).rejects.toMatchObject({
      code: "PLAN_INVALID",
      issues: [
        expect.stringMatching(/^it is Markdown, and a plan is YAML or JSON\. .*--workstreams <folder> --command/),
      ],
    });
  });
});
