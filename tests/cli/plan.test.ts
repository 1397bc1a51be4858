import { chmod, copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempFolder } from "../support/temp-folder.js";
import { eventsIn, waymark } from "./waymark.js";

const CODER = join(import.meta.dirname, "..", "fixtures", "plans", "coder.mjs");
const PLAN = "- [x] T001 Begin\n- [ ] T002 [P] Say hello\n- [ ] T003 Say bye (depends on T002)\n";

/** An empty project with a plan, and a `claude` that replays answers. */
async function newProject(files: Readonly<Record<string, string>> = { "tasks.md": PLAN }) {
  const cwd = await tempFolder();
  const claude = join(cwd, "node_modules", ".bin", "claude");
  await mkdir(dirname(claude), { recursive: true });
  await copyFile(CODER, claude);
  await chmod(claude, 0o755);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(cwd, name)), { recursive: true });
    await writeFile(join(cwd, name), text);
  }
  return {
    cwd,
    run: (...args: string[]) => waymark({ cwd }, args),
    read: (name: string) => readFile(join(cwd, name), "utf8"),
  };
}

describe("waymark plan check", () => {
  it("shows what would run in a table, and runs nothing", async () => {
    const { run } = await newProject();
    const { code, stdout } = await run("plan", "check", "tasks.md", "--gate", "npm test");
    expect([code, stdout]).toEqual([
      0,
      `tasks.md: spec-kit, 3 items, 1 done, 2 to run
ITEM  STATUS  TITLE                      AFTER  GATES
T001  done    Begin
T002  open    Say hello (parallel)              npm test
T003  open    Say bye (depends on T002)  T002   npm test

`,
    ]);
  });

  it("exits with 1 if an item has no gate, and names the gates of package.json with --gates auto", async () => {
    const scripts = { scripts: { test: "vitest", "type-check": "tsc", dev: "vite" } };
    const { run } = await newProject({ "tasks.md": PLAN, "package.json": JSON.stringify(scripts) });
    const without = await run("plan", "check", "tasks.md");
    expect(without.code).toBe(1);
    expect(without.stdout).toContain('Without a gate: T002, T003. Name one (--gate "npm test", --gates auto)');
    const auto = await run("plan", "check", "tasks.md", "--gates", "auto");
    expect(auto.code).toBe(0);
    expect(auto.stdout).toContain("Gates of package.json: npm run type-check, npm test");
  });

  it("names an unknown format, and what is supported", async () => {
    const { run } = await newProject({ "plan.md": "# Plan\n\n- a\n" });
    const { code, stdout } = await run("plan", "check", "plan.md");
    expect(code).toBe(1);
    expect(stdout).toContain("it is Markdown without check boxes, with 1 headings and 1 list items. Supported are");
  });

  it("finds the plans of a folder", async () => {
    const { run } = await newProject({
      ".kiro/specs/a/tasks.md": PLAN,
      "b/prd.json": '{"userStories":[]}',
      "README.md": "- [ ] no\n",
    });
    const { stdout } = await run("plan", "check", ".", "--gate", "true", "--json");
    expect(
      JSON.parse(stdout).plans.map(({ format, items }: { format: string; items: unknown[] }) => [format, items.length]),
    ).toEqual([
      ["Kiro", 3],
      ["prd.json", 0],
    ]);
  });

  it("takes the gates of the configuration", async () => {
    const { run } = await newProject({ "tasks.md": PLAN, "waymark.config.json": '{"gates":["make check"]}' });
    expect((await run("plan", "check", "tasks.md")).stdout).toContain("make check");
  });
});

describe("waymark plan run", () => {
  it("is one command from nothing to running, and its run is shown by the other commands", async () => {
    const { run, read } = await newProject();
    const { code, stdout, stderr } = await run("plan", "run", "tasks.md", "--coder", "claude", "--gate", "test -d out");
    expect(code).toBe(0);
    expect(stdout).toContain("Done: T002, T003 (2 calls, $0.50, 200 tokens in all). Nothing is open.\n");
    expect(stderr).toContain("T002: test -d out passed\nT002 done: Say hello (1 call, $0.25, 100 tokens)\n");
    expect(await read("tasks.md")).toBe(PLAN.replaceAll("[ ]", "[x]"));
    expect(await read(".waymark/.gitignore")).toBe("*\n");

    expect((await run("tasks")).stdout).toMatch(
      /STATUS .* COST +WHEN +WHY\nplan\/tasks.md +\d+ +completed .*\$0\.50, 200 tokens/,
    );
    const [{ usage }] = JSON.parse((await run("tasks", "--json")).stdout);
    expect(usage).toEqual({ tokens: 200, costUsd: 0.5 });
    expect((await run("show", "plan/tasks.md")).stdout).toContain(
      "T003 done: Say bye (depends on T002) (1 call, $0.25, 100 tokens)",
    );
  });

  it("reports a failed item, which resume then shows", async () => {
    const { run } = await newProject({ "tasks.md": PLAN, "script.json": '{"T002":["fail"]}' });
    const ended = await run("plan", "run", ".", "--coder", "claude", "--gate", "true", "--fixes", "0", "--json");
    expect(ended.code).toBe(1);
    expect(eventsIn(ended.stdout).at(-1)).toMatchObject({
      type: "ended",
      status: "error",
      error: { code: "ITEM_FAILED" },
    });
    expect((await run("resume")).stdout).toMatch(/plan\/tasks.md .*the model is overloaded/);
  });
});
