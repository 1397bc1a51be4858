// Tests managers that are opened from a project's configuration.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { CheckpointManager, StateInvalidError } from "waymark";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { defineConfig, loadConfig, openManager } from "waymark/config";
import { z } from "zod";
import { tempFolder } from "../../support/temp-folder.js";

const ZOD = pathToFileURL(join(import.meta.dirname, "..", "..", "..", "node_modules", "zod", "index.js")).href;

/** Makes a project with a folder and a configuration with this text. */
async function project(text: string, name = "waymark.config.mjs") {
  const folder = await tempFolder();
  const below = join(folder, "src", "deep");
  mkdirSync(below, { recursive: true });
  const file = join(folder, name);
  writeFileSync(file, text);
  return { folder, below, file };
}

const SQLITE = 'export default { storage: "sqlite:checkpoints.db" };';

describe("openManager", () => {
  it("finds the configuration in a folder above, and opens its storage relative to that folder", async () => {
    const { folder, below } = await project(SQLITE);
    const manager = await openManager<{ n: number }>({ cwd: below });
    await manager.save("t", { n: 1 });
    await manager.close();
    await using same = new CheckpointManager({ storage: openStorage(`sqlite:${join(folder, "checkpoints.db")}`) });
    expect((await same.latest("t"))?.state).toEqual({ n: 1 });
  });

  it("takes the configuration's file by name, relative to cwd", async () => {
    const { folder, below } = await project('{ "storage": "files:store" }', "other.json");
    const manager = await openManager({ cwd: below, file: "../../other.json" });
    await manager.save("t", 1);
    await manager.close();
    await using same = new CheckpointManager({ storage: openStorage(`files:${join(folder, "store")}`) });
    expect(await same.has("t")).toBe(true);
  });

  it("applies the configuration's schema, version, migrations, retention and redaction", async () => {
    const { below } = await project(`
      import { z } from "${ZOD}";
      export default {
        storage: "sqlite:checkpoints.db",
        schema: z.object({ n: z.number(), key: z.string() }),
        stateVersion: 2,
        migrations: { 1: ({ count }) => ({ n: count, key: "none" }) },
        retention: { keepLast: 2 },
        redact: { paths: ["state.key"] },
      };`);
    await using manager = await openManager<{ n: number; key: string }>({ cwd: below });
    await expect(manager.save("t", { n: "1" as never, key: "k" })).rejects.toThrow(StateInvalidError);
    for (const n of [1, 2, 3]) await manager.save("t", { n, key: "secret" });
    expect(await manager.list("t")).toMatchObject([{ stateVersion: 2 }, { stateVersion: 2 }]);
    expect((await manager.latest("t"))?.state).toEqual({ n: 3, key: "[redacted]" });
  });

  it("migrates what an older program saved", async () => {
    const { folder, below } = await project(`
      export default { storage: "files:store", stateVersion: 2, migrations: { 1: ({ count }) => ({ n: count }) } };`);
    const older = new CheckpointManager({ storage: openStorage(`files:${join(folder, "store")}`) });
    await older.save("t", { count: 7 });
    await older.close();
    await using manager = await openManager({ cwd: below });
    expect((await manager.latest("t"))?.state).toEqual({ n: 7 });
  });

  it("prefers its own options to the configuration's", async () => {
    const { below } = await project('export default { storage: "sqlite:/nowhere/x.db", stateVersion: 2 };');
    const schema = z.object({ at: z.codec(z.string(), z.date(), { decode: (t) => new Date(t), encode: String }) });
    await using manager = await openManager({ cwd: below, storage: "memory:", schema, stateVersion: 3 });
    const saved = await manager.save("t", { at: new Date(0) });
    expect(saved.stateVersion).toBe(3);
    expect((await manager.latest("t"))?.state.at).toEqual(new Date(0));
  });

  it("opens its own storage relative to cwd, not to the configuration's folder", async () => {
    const { folder, below } = await project('export default { storage: "sqlite:configured.db" };');
    const manager = await openManager({ cwd: below, storage: "sqlite:given.db" });
    await manager.save("t", 1);
    await manager.close();
    expect(existsSync(join(below, "given.db"))).toBe(true);
    expect(readdirSync(folder)).toEqual(["src", "waymark.config.mjs"]);
  });

  it("takes the configuration's setting for an option that is undefined", async () => {
    const { below } = await project('export default { storage: "memory:", stateVersion: 2 };');
    await using manager = await openManager({
      cwd: below,
      file: undefined,
      storage: undefined,
      stateVersion: undefined,
    });
    expect((await manager.save("t", 1)).stateVersion).toBe(2);
  });

  it("needs no configuration if it gets a storage", async () => {
    const storage = new MemoryAdapter();
    await using manager = await openManager({ cwd: await tempFolder(), storage });
    await manager.save("t", 1);
    await using same = new CheckpointManager({ storage, ownsStorage: false });
    expect(await same.has("t")).toBe(true);
  });

  it("opens a configured URL again after close, but not a configured adapter", async () => {
    const adapters = pathToFileURL(join(import.meta.dirname, "..", "..", "..", "dist", "adapters", "memory.js")).href;
    for (const [storage, again] of [
      ['"memory:"', false],
      ["new MemoryAdapter()", "CLOSED"],
    ]) {
      const { below } = await project(
        `import { MemoryAdapter } from "${adapters}"; export default { storage: ${storage} };`,
      );
      const first = await openManager({ cwd: below });
      await first.save("t", 1);
      await first.close();
      const second = await openManager({ cwd: below });
      expect(await second.has("t").catch((error) => error.code)).toBe(again);
    }
  });

  it("opens a URL with options relative to the configuration's folder, from any folder", async () => {
    const { folder, below } = await project('{ "storage": "files:store?pretty=true" }', "waymark.config.json");
    const manager = await openManager({ cwd: below });
    await manager.save("t", { n: 1 });
    await manager.close();
    const [name = ""] = readdirSync(join(folder, "store", "t")).filter((file) => file.endsWith(".json"));
    expect(readFileSync(join(folder, "store", "t", name), "utf8")).toContain('"state":{\n  "n": 1\n}');
  });

  it("reports where it looked and what to write if there is no configuration", async () => {
    const cwd = await tempFolder();
    const opening = openManager({ cwd });
    await expect(opening).rejects.toThrow(TypeError);
    await expect(opening).rejects.toThrow(
      `There is no configuration: neither ${cwd} nor a folder above it has a waymark.config.js, waymark.config.mjs, waymark.config.ts, ` +
        'waymark.config.json, or a package.json with "waymark". Write waymark.config.mjs with ' +
        '`export default { storage: "sqlite:.waymark/checkpoints.db" };`, or pass `storage`. Nothing was opened.',
    );
  });

  it.each([
    ["export default { retention: { keepLast: 3 } };", /names no storage\. Add storage: "sqlite:/],
    ["export const storage = 1;", /can't be used: it has no default export/],
    ["export default { storag: 'files:x' };", /can't be used: .*storag/],
    ["export default { stateVersion: 0 };", /can't be used: options.stateVersion/],
    ["throw new Error('no key');", /can't be used: no key/],
  ])("names the file of a configuration that can't be used: %s", async (text, message) => {
    const { below, file } = await project(text);
    const opening = openManager({ cwd: below });
    await expect(opening).rejects.toThrow(message);
    await expect(opening).rejects.toThrow(file);
  });

  it("names a file that isn't there", async () => {
    const cwd = await tempFolder();
    await expect(loadConfig({ cwd, file: "none.mjs" })).rejects.toThrow(
      `The configuration in ${join(cwd, "none.mjs")} can't be used: there is no such file.`,
    );
  });

  it("knows a misspelled option", async () => {
    // @ts-expect-error It is `storage`.
    await expect(openManager({ storag: "memory:" })).rejects.toThrow(/storag/);
  });

  it.each([
    [/^openManager takes options: openManager\(\{ storage \}\)\.$/, "postgres://me:secret@host/db"],
    [/^openManager takes options: openManager\(\{ storage \}\)\.$/, new MemoryAdapter()],
    [/^OpenManagerOptions\.storage must be a URL such as "sqlite:.*", or an adapter\.$/, { storage: 3 }],
    [/^OpenManagerOptions\.storage must be a URL/, { storage: null }],
    [/^cwd must be a string, not object\.$/, { cwd: new URL("file:///tmp") }],
    [/^file must be a string, not object\.$/, { file: new URL("file:///tmp/x.mjs") }],
  ])("says what to pass: %s", async (message, options) => {
    const opening = openManager(options as never);
    await expect(opening).rejects.toThrow(TypeError);
    await expect(opening).rejects.toThrow(message);
  });
});

describe("loadConfig", () => {
  it("returns the configuration with its file and folder", async () => {
    const { folder, below, file } = await project(SQLITE);
    expect(await loadConfig({ cwd: below })).toEqual({
      config: { storage: "sqlite:checkpoints.db" },
      file,
      folder,
    });
  });

  it("passes over a package.json without a configuration, and reads one that has it", async () => {
    const { folder, below } = await project('{ "waymark": { "storage": "files:store" } }', "package.json");
    writeFileSync(join(below, "package.json"), '{ "type": "module" }');
    expect(await loadConfig({ cwd: below })).toMatchObject({ config: { storage: "files:store" }, folder });
  });

  it("reads JSON that begins with a byte order mark", async () => {
    const { below } = await project('\uFEFF{ "storage": "files:store" }', "waymark.config.json");
    expect(await loadConfig({ cwd: below })).toMatchObject({ config: { storage: "files:store" } });
  });

  it("looks in the home folder, and in none above it", async () => {
    const { folder, below } = await project(SQLITE);
    vi.stubEnv("HOME", folder);
    onTestFinished(() => void vi.unstubAllEnvs());
    expect(await loadConfig({ cwd: below })).toMatchObject({ folder });
    vi.stubEnv("HOME", join(folder, "src"));
    expect(await loadConfig({ cwd: below })).toBeUndefined();
  });

  it("is undefined if there is none", async () => {
    expect(await loadConfig({ cwd: await tempFolder() })).toBeUndefined();
  });

  it.each(['{ "type": "commonjs" }', "{}"])(
    "tells how to rename an ES module that package.json calls CommonJS: %s",
    async (manifest) => {
      const { folder, below } = await project(SQLITE, "waymark.config.js");
      writeFileSync(join(folder, "package.json"), manifest);
      await expect(loadConfig({ cwd: below })).rejects.toThrow(
        "so Node reads it as CommonJS, and it isn't (line 1: Unexpected token 'export'). Rename it to waymark.config.mjs.",
      );
    },
  );

  it("reports Node's reason and the line of a syntax error in CommonJS, without advice to rename", async () => {
    const { folder, below, file } = await project("// A comment\nmodule.exports = { storage: ;\n", "waymark.config.js");
    writeFileSync(join(folder, "package.json"), "{}");
    await expect(loadConfig({ cwd: below })).rejects.toThrow(
      `The configuration in ${file} can't be used: it isn't JavaScript: line 2: Unexpected token ';'.`,
    );
  });

  it("returns settings for a manager", async () => {
    const { below } = await project('export default { storage: "files:unused", retention: { keepLast: 1 } };');
    const { config } = (await loadConfig({ cwd: below })) ?? {};
    await using manager = new CheckpointManager({ ...config, storage: new MemoryAdapter() });
    await manager.save("t", 1);
    await manager.save("t", 2);
    expect(await manager.list("t")).toHaveLength(1);
  });

  it.each([
    ['{ "type": "module" }', SQLITE],
    ['{ "type": "commonjs" }', 'module.exports = { storage: "sqlite:checkpoints.db" };'],
  ])("takes a waymark.config.js of the kind that package.json says: %s", async (manifest, text) => {
    const { folder, below } = await project(text, "waymark.config.js");
    writeFileSync(join(folder, "package.json"), manifest);
    expect(await loadConfig({ cwd: below })).toMatchObject({ config: { storage: "sqlite:checkpoints.db" } });
  });

  it("asks the nearest package.json for the kind of a waymark.config.js", async () => {
    const { folder, below } = await project('{ "type": "commonjs" }', "package.json");
    writeFileSync(join(folder, "src", "package.json"), '{ "type": "module" }');
    writeFileSync(join(folder, "src", "waymark.config.js"), SQLITE);
    expect(await loadConfig({ cwd: below })).toMatchObject({ folder: join(folder, "src") });
  });
});

it("a manager that gets a storage URL refers to openManager, and doesn't show the URL", () => {
  const storage = "postgres://me:secret@host/db" as never;
  const making = () => new CheckpointManager({ storage });
  expect(making).toThrow(/openManager\(\{ storage \}\) of "waymark\/config"/);
  expect(making).not.toThrow(/secret/);
});

it("a manager that gets an adapter instead of options explains how to pass it", () => {
  expect(() => new CheckpointManager(new MemoryAdapter() as never)).toThrow(
    "CheckpointManager takes options: new CheckpointManager({ storage }).",
  );
});

it("a configuration of a program goes into openStorage and into a manager", async () => {
  const config = defineConfig({ storage: "memory:", retention: { keepLast: 1 } });
  const { storage, ...settings } = config;
  await using manager = new CheckpointManager({ ...settings, storage: openStorage(storage) });
  await manager.save("t", 1);
  await manager.save("t", 2);
  expect(await manager.list("t")).toHaveLength(1);
});
