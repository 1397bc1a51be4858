// Rules for every command: help, errors, the choice of the storage, completion.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempFolder } from "../support/temp-folder.js";
import { newPlace, waymark } from "./waymark.js";

const COMMANDS = [
  "tasks",
  "list",
  "show",
  "resume",
  "diff",
  "bisect",
  "fork",
  "rewind",
  "stats",
  "prune",
  "delete",
  "complete",
  "export",
  "import",
  "copy",
  "verify",
  "repair",
  "rekey",
  "postgres",
  "work",
  "enqueue",
  "send",
  "cancel",
  "retry",
  "logs",
  "wait",
  "oneshot",
  "prp",
  "langgraph",
  "completion",
];

/** `waymark --help` only names them. */
const GROUPS = {
  "Runs and workers": ["work", "enqueue", "send", "cancel", "retry", "logs", "wait"],
  Plans: ["oneshot", "prp", "plan"],
  "To set up": ["rekey", "postgres", "langgraph", "completion"],
};

describe("--help", () => {
  it("fits a screen of 80 by 24, and shows an example of each command outside of groups", async () => {
    const { code, stdout } = await waymark({ cwd: "." }, ["--help"]);
    const lines = stdout.trimEnd().split("\n");
    expect(code).toBe(0);
    expect(lines.length).toBeLessThanOrEqual(24);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
    const grouped = Object.values(GROUPS).flat();
    for (const command of COMMANDS.filter((name) => !grouped.includes(name))) {
      expect(stdout).toMatch(new RegExp(`^  ${command} .*[ (]waymark ${command}`, "m"));
    }
    for (const [group, names] of Object.entries(GROUPS))
      expect(stdout).toContain(`\n  ${group}: ${names.join(", ")}\n`);
  });

  it.each(COMMANDS)("of %s fits a screen too, with its example", async (command) => {
    const { code, stdout } = await waymark({ cwd: "." }, [command, "--help"]);
    const lines = stdout.trimEnd().split("\n");
    expect([code, lines.length <= 24]).toEqual([0, true]);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
    expect(stdout).toMatch(new RegExp(`\nExample: .*waymark ${command} ?`));
  });

  it.each([
    [["help"], ["--help"], "Usage: waymark <command>"],
    [["help", "list"], ["list", "--help"], "Usage: waymark list "],
    [["help", "prp", "run"], ["prp", "run", "--help"], "Usage: waymark prp run "],
    [["help", "oneshot", "list"], ["oneshot", "list", "--help"], "Usage: waymark oneshot list "],
    [["prp", "help", "run"], ["prp", "run", "--help"], "Usage: waymark prp run "],
    [["help", "prp", "check"], ["prp", "check", "--help"], "Usage: waymark prp check "],
  ])("is also shown by %j", async (asked, option, usage) => {
    const { code, stdout } = await waymark({ cwd: "." }, asked);
    expect([code, stdout]).toEqual([0, (await waymark({ cwd: "." }, option)).stdout]);
    expect(stdout.startsWith(usage)).toBe(true);
  });

  it.each(COMMANDS)("of %s names --storage if the command has one", async (command) => {
    const { stdout } = await waymark({ cwd: "." }, [command, "--help"]);
    const usesStorage = !["postgres", "oneshot", "prp", "completion"].includes(command);
    expect(stdout).toContain(
      `\nAlso: ${usesStorage ? "--storage URL, --config FILE, " : ""}--verbose; see waymark --help\n`,
    );
  });

  it("documents the exit codes, and bisect's order", async () => {
    expect((await waymark({ cwd: "." }, ["--help"])).stdout).toContain(
      "Exit: 0 done, 1 failed, 2 usage, 3 not found, 4 declined, 5 damaged, 6 conflict",
    );
    expect((await waymark({ cwd: "." }, ["bisect", "--help"])).stdout).toMatch(
      /Like git bisect, it searches by halves/,
    );
    expect((await waymark({ cwd: "." }, ["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

describe("an error", () => {
  it.each([
    [["lst"], 2, /unknown command 'lst'.*Did you mean list/],
    [["help", "nonsense"], 2, /unknown command 'nonsense'.*See waymark --help/],
    [["help", "prp", "nonsense"], 2, /unknown command 'prp nonsense'.*See waymark --help/],
    [["list"], 2, /missing required argument 'task'/],
    [["tasks", "--limt", "3"], 2, /unknown option '--limt'.*Did you mean --limit/],
    [["tasks", "--limit", "x"], 2, /'--limit <n>' argument 'x' is invalid.*whole number from 1/],
    [["tasks", "--storage", "redis:x"], 2, /No storage has the scheme "redis"/],
    [["tasks", "--storage", "mysql://u:secret@h/d"], 2, /No storage has the scheme "mysql"\. Write/],
    [
      ["tasks", "--storage", "postgres://u:secret@127.0.0.1:1/d"],
      1,
      /PostgreSQL at 127\.0\.0\.1:1, schema "waymark" can't/,
    ],
    [["tasks", "--storage", "postgres://u:se cret@h h/d"], 2, /A PostgreSQL URL must be like/],
    [["tasks", "--storage", "x.db"], 2, /isn't a storage URL/],
    [["tasks"], 2, /No storage is named. Pass --storage/],
    [["list", "", "--storage", "files:."], 2, /must not be empty/],
    [["send", "t", "a", "yes", "--storage", "files:x"], 2, /must be JSON\. Quote a text twice: .*'"yes"'/],
    [["enqueue", "t", "--due-at", "2026-12-01T09:00", "--storage", "files:x"], 2, /ISO 8601 with its zone/],
    [["cancel", "t", "--storage", "files:x"], 2, /required option '--reason <text>'/],
    [["work", "--storage", "files:x"], 2, /required option '--module <file>'/],
    [["work", "--module", "none.js", "--storage", "files:x"], 3, /There is no module .*none\.js\. Check --module/],
    [["import", "none.ndjson", "--storage", "files:x"], 3, /none.ndjson can't be read.*Nothing was imported/],
    [["import", "--storage", "files:x"], 5, /standard input, line 1: it is empty/],
  ])("%j ends with %i and one line that says what to do", async (args, code, message) => {
    const ended = await waymark({ cwd: await tempFolder() }, args);
    expect([ended.code, ended.stdout]).toEqual([code, ""]);
    expect(ended.stderr).toMatch(message);
    expect(ended.stderr).toMatch(/^waymark: .*\n$/);
    expect(ended.stderr).not.toContain("secret");
  });

  it("of the storage is one line too; --verbose adds its causes", async () => {
    const cwd = await tempFolder();
    writeFileSync(join(cwd, "file"), "");
    const plain = await waymark({ cwd }, ["tasks", "--storage", "files:file/store"]);
    expect([plain.code, plain.stderr]).toEqual([
      1,
      expect.stringMatching(/^waymark: .*ENOTDIR.*\[STORAGE_FAILED\]\n$/),
    ]);
    const verbose = await waymark({ cwd }, ["tasks", "--verbose", "--storage", "files:file/store"]);
    expect(verbose.stderr).toMatch(/\n {2}caused by Error \[ENOTDIR\]: /);
  });

  it("shows the help without a command, and doesn't exit with success", async () => {
    const { code, stdout, stderr } = await waymark({ cwd: "." }, []);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("Usage: waymark <command>");
  });

  // Permissions wouldn't help, because tests also run as root.
  it("of a storage that can't be written reports what is in its way", async () => {
    const { cwd, run, manager } = await newPlace();
    await manager.save("t", 1);
    await manager.close();
    mkdirSync(join(cwd, "to"));
    writeFileSync(join(cwd, "to", "t"), "");
    const { code, stdout, stderr } = await run("copy", "--to", "files:to");
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^waymark: .*\/to\/t is not a folder\. .*move it away\. \[STORAGE_FAILED\]\n$/);
    expect(readFileSync(join(cwd, "to", "t"), "utf8")).toBe("");
  });
});

describe("the storage is", () => {
  async function places() {
    const { cwd, open, manager } = await newPlace("files:of-config");
    for (const name of ["of-flag", "of-variable", "of-config"]) {
      const its = await open(`files:${name}`);
      await its.save(name, 1);
      await its.close();
    }
    await manager.close();
    mkdirSync(join(cwd, "deep", "er"), { recursive: true });
    const taskIn = async (folder: string, env: NodeJS.ProcessEnv, ...args: string[]) =>
      (await waymark({ cwd: join(cwd, folder), env }, ["tasks", "--json", ...args])).stdout.match(
        /"taskId":"([^"]*)"/,
      )?.[1];
    return { cwd, taskIn };
  }

  it("the flag's, or the variable's, or the configuration's", async () => {
    const { cwd, taskIn } = await places();
    writeFileSync(join(cwd, "waymark.config.json"), '{ "storage": "files:of-config" }');
    const env = { WAYMARK_STORAGE: "files:of-variable" };
    expect(await taskIn(".", env, "--storage", "files:of-flag")).toBe("of-flag");
    expect(await taskIn(".", env)).toBe("of-variable");
    expect(await taskIn(".", {})).toBe("of-config");
    expect(await taskIn(".", { WAYMARK_STORAGE: "" })).toBe("of-config");
  });

  it.each([
    [
      "waymark.config.js",
      (sdk: string) =>
        `import { defineConfig } from "${sdk}"; export default defineConfig({ storage: "files:of-config" });`,
    ],
    [
      "waymark.config.mjs",
      (sdk: string) =>
        `import { defineConfig } from "${sdk}"; export default defineConfig({ storage: "files:of-config" });`,
    ],
    ["waymark.config.json", () => '{ "storage": "files:of-config" }'],
    ["package.json", () => '{ "type": "module", "waymark": { "storage": "files:of-config" } }'],
  ])("named in %s of a folder above, relative to that file", async (name, content) => {
    const { cwd, taskIn } = await places();
    const sdk = new URL("../../dist/config/index.js", import.meta.url).href;
    writeFileSync(join(cwd, "package.json"), '{ "type": "module" }');
    writeFileSync(join(cwd, name), content(sdk));
    expect(await taskIn("deep/er", {})).toBe("of-config");
  });

  it("not in waymark.config.ts if there is a waymark.config.js beside it, which would be its compiled form", async () => {
    const { cwd, taskIn } = await places();
    writeFileSync(join(cwd, "package.json"), '{ "type": "module" }');
    writeFileSync(join(cwd, "waymark.config.ts"), 'export default { storage: "files:of-config" };');
    writeFileSync(join(cwd, "waymark.config.js"), 'export default { storage: "files:of-flag" };');
    expect(await taskIn("deep/er", {})).toBe("of-flag");
  });

  it("an adapter of the configuration", async () => {
    const { cwd, taskIn } = await places();
    const sdk = new URL("../../dist/adapters/index.js", import.meta.url).href;
    const content = `import { openStorage } from "${sdk}"; export default { storage: openStorage("files:of-flag") };`;
    writeFileSync(join(cwd, "waymark.config.mjs"), content);
    expect(await taskIn(".", {})).toBe("of-flag");
  });

  it.each([
    ["waymark.config.json", '{ "storag": "files:x" }', /waymark\.config\.json can't be used: .*storag/],
    ["waymark.config.json", '{ "storage": ', /waymark\.config\.json can't be used: .*JSON/],
    ["waymark.config.mjs", "export default 5;", /waymark\.config\.mjs can't be used: .*object/],
    ["waymark.config.mjs", "export const config = {};", /no default export/],
    ["waymark.config.mjs", "throw new Error('two\\nlines')", /waymark\.config\.mjs can't be used: two\\nlines/],
    ["package.json", '{ "waymark": { "retention": { "keepLst": 3 } } }', /package\.json can't be used: .*keepLst/],
  ])("refused if %s holds %s", async (name, content, message) => {
    const cwd = await tempFolder();
    writeFileSync(join(cwd, name), content);
    const { code, stderr } = await waymark({ cwd }, ["tasks"]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
    expect(stderr.trim().split("\n")).toHaveLength(1);
  });
});

describe("completion", () => {
  it.each([
    [["ta"], ["tasks"]],
    [["list", "--in"], ["--incomplete"]],
    [
      ["list", "bu"],
      ["build-1", "build-2"],
    ],
    [["--storage"], ["--storage"]],
    [["--storage", "sq"], ["sqlite:"]],
    [
      ["completion", ""],
      ["bash", "zsh", "fish"],
    ],
    [
      ["show", "build-1", "@"],
      ["@latest", "@1"],
    ],
    [["fork", "build-1"], ["build-1"]],
    [["send", "build-1"], ["build-1"]],
    [["cancel", "build-1", "--re"], ["--reason"]],
    [
      ["work", "--con"],
      ["--concurrency", "--config"],
    ],
    // The shell completes file names.
    [["work", "--module", ""], []],
    [
      ["fork", "build-1", "@"],
      ["@latest", "@1"],
    ],
    [["fork", "build-1", "@2", "build"], []],
    [
      ["rewind", "build-1", "@"],
      ["@latest", "@1"],
    ],
    [["show", "build-1", "@1"], ["@1"]],
    [["show", "nobody", "@"], ["@latest"]],
    [["rew"], ["rewind"]],
    [
      ["oneshot", "F01", "--re"],
      ["--resume", "--restart"],
    ],
    [
      ["tasks", "--st"],
      ["--status", "--stage", "--storage"],
    ],
    [
      ["list", "build-1", "--status", ""],
      ["running", "paused", "completed", "failed"],
    ],
    [["nobody", "x"], []],
    [["nobody", ""], []],
    [["prp", "r"], ["run"]],
    [
      ["prp", ""],
      ["check", "run", "status", "help"],
    ],
    [
      ["prp", "run", "--s"],
      ["--session", "--section", "--skip", "--storage"],
    ],
    [
      ["prp", "check", "PRP.md", "--s"],
      ["--section", "--skip", "--storage"],
    ],
    [["prp", "check", "PRP.md", ""], []],
    [["prp", "status", "--js"], ["--json"]],
    // The shell completes file names.
    [["prp", "run", "--session", ""], []],
    [["prp", "run", ""], []],
    [["oneshot", "l"], ["list"]],
    [["oneshot", "F01", "l"], []],
    [["oneshot", "list", "--js"], ["--json"]],
    // Without candidates, the shell completes file names.
    [["oneshot", "--plan", ""], []],
    [["oneshot", "F01", "--jobs", ""], []],
    [["list", "--limit", "bu"], []],
    [["help", "prp", "r"], ["run"]],
    [["prp", "help", "s"], ["status"]],
    [["help", "list", ""], []],
    [["prune", "--keep-d"], []],
  ])("of %j offers %j", async (words, candidates) => {
    const { manager, run } = await newPlace();
    for (const id of ["build-1", "build-2", "bu $(rm)", "bu\u001b[31m"]) await manager.save(id, 1);
    await manager.close();
    expect((await run("__complete", "--", ...words)).stdout.split("\n").filter(Boolean)).toEqual(candidates);
  });

  it("needs no configuration if a URL names the storage", async () => {
    const { cwd, place, manager, run } = await newPlace();
    await manager.save("build-1", 1);
    await manager.close();
    writeFileSync(join(cwd, "waymark.config.mjs"), "throw new Error('no');");
    const words = ["__complete", "--", "--storage", "sqlite:checkpoints.db", "list", "b"];
    expect((await waymark({ ...place, env: {} }, words)).stdout).toBe("build-1\n");
    expect((await run("__complete", "--", "list", "b")).stdout).toBe("build-1\n");
  });

  it("uses the storage of the configuration that --config names", async () => {
    const { cwd, manager } = await newPlace();
    await manager.save("build-1", 1);
    await manager.close();
    writeFileSync(join(cwd, "other.json"), '{ "storage": "sqlite:checkpoints.db" }');
    for (const config of [["--config", "other.json"], ["--config=other.json"]]) {
      expect((await waymark({ cwd }, ["__complete", "--", ...config, "list", "b"])).stdout).toBe("build-1\n");
    }
  });

  it("refuses an unknown shell", async () => {
    expect((await waymark({ cwd: "." }, ["completion", "tcsh"])).code).toBe(2);
  });
});
