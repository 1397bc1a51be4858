// Tests which configuration a command looks for, and which owners it accepts.
import { chmodSync, chownSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { encrypt } from "waymark";
import { openManager } from "waymark/config";
import { tempFolder } from "../support/temp-folder.js";
import { newPlace, waymark } from "./waymark.js";

const SDK = pathToFileURL(join(import.meta.dirname, "..", "..", "dist", "src", "index.js")).href;
/** A user id that tests assume to be unused. */
const STRANGER = 54_321;
const isRoot = process.geteuid?.() === 0;

/** Makes a folder that anyone may write to, with a storage and a configuration that leaves a mark if it runs. */
async function sharedFolder(name = "waymark.config.mjs") {
  const { cwd, manager } = await newPlace();
  await manager.save("build-42", 1);
  await manager.close();
  chmodSync(cwd, 0o777);
  const below = join(cwd, "project");
  mkdirSync(below);
  const mark = join(cwd, "it-ran");
  const storage = "sqlite:checkpoints.db";
  const config = join(cwd, name);
  const code = `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(mark)}, "");
    export default { storage: ${JSON.stringify(storage)} };`;
  writeFileSync(config, name.endsWith("json") ? JSON.stringify({ storage, waymark: { storage } }) : code);
  const run = (args: readonly string[], env: NodeJS.ProcessEnv = {}) => waymark({ cwd: below, env }, args);
  return { cwd, config, run, hasRun: () => existsSync(mark) };
}

describe.skipIf(!isRoot)(
  "a configuration in a parent folder (skipped unless tests run as root, who can give files away)",
  () => {
    it.each(["waymark.config.js", "waymark.config.mjs", "waymark.config.json", "package.json"])(
      "is refused if %s belongs to another user, and doesn't run",
      async (name) => {
        const { config, run, hasRun } = await sharedFolder(name);
        if (name === "package.json") writeFileSync(config, '{ "waymark": { "storage": "sqlite:checkpoints.db" } }');
        if (name === "waymark.config.json") writeFileSync(config, '{ "storage": "sqlite:checkpoints.db" }');
        chownSync(config, STRANGER, STRANGER);
        const { code, stdout, stderr } = await run(["tasks"]);
        expect([code, stdout, hasRun()]).toEqual([2, "", false]);
        expect(stderr).toBe(
          `waymark: The configuration in ${config} can't be used: it belongs to another user (uid ${STRANGER}). ` +
            "If you trust it, name it: --config of the command, file of openManager.\n",
        );
      },
    );

    it("is refused if another user's link leads to one's own file", async () => {
      const { cwd, config, run, hasRun } = await sharedFolder("mine.mjs");
      const link = join(cwd, "waymark.config.mjs");
      symlinkSync(config, link);
      expect((await run(["tasks"])).code).toBe(0);
      const { lchownSync } = await import("node:fs");
      lchownSync(link, STRANGER, STRANGER);
      expect((await run(["tasks"])).code).toBe(2);
      expect(hasRun()).toBe(true);
    });

    it("is accepted from the user who called sudo", async () => {
      const { config, run } = await sharedFolder();
      chownSync(config, STRANGER, STRANGER);
      expect(await run(["tasks"], { SUDO_UID: String(STRANGER) })).toMatchObject({ code: 0, stderr: "" });
      expect((await run(["tasks"], { SUDO_UID: String(STRANGER + 1) })).code).toBe(2);
      expect((await run(["tasks"], { SUDO_UID: "" })).code).toBe(2);
    });

    it("is looked for further up if another user's package.json has none", async () => {
      const { cwd, run } = await sharedFolder();
      const other = join(cwd, "project", "package.json");
      writeFileSync(other, "{}");
      chownSync(other, STRANGER, STRANGER);
      expect((await run(["tasks"])).code).toBe(0);
    });

    it("may be anybody's if --config names it", async () => {
      const { config, run, hasRun } = await sharedFolder();
      chownSync(config, STRANGER, STRANGER);
      expect(await run(["tasks", "--config", "../waymark.config.mjs"])).toMatchObject({ code: 0, stderr: "" });
      expect(hasRun()).toBe(true);
    });
  },
);

it("--config names a file, and its relative paths start at that file", async () => {
  const { cwd, run } = await sharedFolder("other.mjs");
  expect((await run(["tasks", "--json", "--config", join("..", "other.mjs")])).stdout).toContain('"build-42"');
  writeFileSync(join(cwd, "package.json"), '{ "waymark": { "storage": "sqlite:checkpoints.db" } }');
  expect((await run(["tasks", "--json", "--config", join("..", "package.json")])).stdout).toContain('"build-42"');
});

it.each([
  ["none.mjs", 3, /^waymark: There is no configuration \/.*none\.mjs\. Check --config\.\n$/],
  [
    "config.toml",
    2,
    /^waymark: The configuration in \/.*config\.toml can't be used: .*\.js, \.mjs, \.ts or \.json\.\n$/,
  ],
  ["empty.json", 2, /^waymark: The configuration in \/.*empty\.json can't be used: /],
  ["package.json", 2, /^waymark: The configuration in \/.*package\.json can't be used: /],
])("--config %s ends with %i and one line, with --storage too", async (name, code, message) => {
  const cwd = await tempFolder();
  writeFileSync(join(cwd, "config.toml"), "a = 1");
  writeFileSync(join(cwd, "empty.json"), "");
  writeFileSync(join(cwd, "package.json"), "{}");
  for (const args of [["tasks"], ["stats", "--storage", "files:."]]) {
    const ended = await waymark({ cwd }, [...args, "--config", name]);
    expect([ended.code, ended.stdout, ended.stderr]).toEqual([code, "", expect.stringMatching(message)]);
  }
});

describe("with --storage, or WAYMARK_STORAGE", () => {
  async function withBrokenConfig() {
    const { cwd, run, manager } = await newPlace();
    for (let n = 1; n <= 3; n++) await manager.save("build-42", { n });
    await manager.close();
    writeFileSync(join(cwd, "waymark.config.mjs"), 'throw new Error("it ran");');
    return { cwd, run };
  }

  it.each([
    ["tasks"],
    ["resume"],
    ["list", "build-42"],
    ["stats"],
    ["verify"],
    ["repair", "--yes"],
    ["export"],
    ["copy", "--to", "files:to"],
    ["prune", "--all", "--keep-last", "2", "--yes"],
    ["prune", "--all", "--keep-daily", "2", "--time-zone", "UTC", "--dry-run"],
    ["complete", "build-42", "--yes"],
    ["delete", "build-42", "--yes"],
  ])("a command that needs no state looks for no configuration: %s", async (...args) => {
    const { run } = await withBrokenConfig();
    expect(await run(...args)).toMatchObject({ code: 0, stderr: expect.not.stringContaining("it ran") });
  });

  it.each([
    ["show", "build-42"],
    ["diff", "build-42"],
    ["bisect", "build-42", "--command", "true"],
    ["fork", "build-42", "@1", "build-43"],
    ["rewind", "build-42", "@1"],
    ["rekey"],
    ["prune", "--all"],
    ["prune", "--all", "--keep-daily", "2", "--dry-run"],
  ])("a command that needs transforms or retention looks for the configuration: %s", async (...args) => {
    const { run } = await withBrokenConfig();
    expect(await run(...args)).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("it ran") });
  });
});

it("a suggested command repeats the given --config", async () => {
  const keys = { k: Buffer.alloc(32, 1) };
  const { cwd, run, manager } = await newPlace("files:store", { transforms: [encrypt({ keys, current: "k" })] });
  for (const good of [true, false]) await manager.save("t", { good });
  await manager.close();
  writeFileSync(
    join(cwd, "keys.mjs"),
    `import { encrypt } from "${SDK}";
    export default { transforms: [encrypt({ keys: { k: Buffer.alloc(32, 1) }, current: "k" })] };`,
  );
  const { stdout } = await run("bisect", "t", "--command", "grep -q true", "--config", "keys.mjs");
  expect(stdout).toContain("See: waymark diff --config keys.mjs t @1 @2\n");
});

it("a command and a program of one project open one storage, whatever folder they start in", async () => {
  const cwd = await tempFolder();
  writeFileSync(join(cwd, "waymark.config.mjs"), 'export default { storage: "sqlite:checkpoints.db" };');
  for (const folder of ["program", "shell"]) mkdirSync(join(cwd, folder));
  const manager = await openManager({ cwd: join(cwd, "program") });
  await manager.save("build-42", { n: 1 });
  await manager.close();
  expect(await waymark({ cwd: join(cwd, "shell") }, ["show", "build-42"])).toMatchObject({ code: 0, stderr: "" });
});

it("tells how to rename an ES module that package.json calls CommonJS, without a warning of Node", async () => {
  const cwd = await tempFolder();
  writeFileSync(join(cwd, "package.json"), '{ "type": "commonjs" }');
  writeFileSync(join(cwd, "waymark.config.js"), 'export default { storage: "sqlite:checkpoints.db" };');
  const { code, stderr } = await waymark({ cwd }, ["tasks"]);
  expect([code, stderr]).toEqual([
    2,
    `waymark: The configuration in ${join(cwd, "waymark.config.js")} can't be used: ${join(cwd, "package.json")} has no "type": "module", ` +
      "so Node reads it as CommonJS, and it isn't (line 1: Unexpected token 'export'). Rename it to waymark.config.mjs.\n",
  ]);
});

it("reports that memory: is no storage for a command", async () => {
  const { code, stderr } = await waymark({ cwd: await tempFolder() }, ["tasks", "--storage", "memory:"]);
  expect([code, stderr]).toEqual([2, expect.stringMatching(/^waymark: memory: is the memory of one process/)]);
});
