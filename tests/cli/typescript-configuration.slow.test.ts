// The commands run in separate processes, because Vite compiles a configuration that a test imports.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { newPlace, waymarkProcess } from "./waymark.js";

const SDK = new URL("../../dist/config/index.js", import.meta.url).href;
const stripsTypes = "typescript" in process.features && process.features.typescript !== false;

async function placeOfTypeScript() {
  const { cwd, manager } = await newPlace("files:of-config");
  await manager.save("of-config", 1);
  await manager.close();
  mkdirSync(join(cwd, "deep", "er"), { recursive: true });
  writeFileSync(join(cwd, "package.json"), '{ "type": "module" }');
  writeFileSync(
    join(cwd, "waymark.config.ts"),
    `import { defineConfig, type WaymarkConfig } from "${SDK}";
    const config: WaymarkConfig = { storage: "files:of-config" };
    export default defineConfig(config);`,
  );
  return { cwd, run: () => waymarkProcess({ cwd: join(cwd, "deep", "er") }, ["tasks", "--json"]) };
}

describe("a storage that waymark.config.ts names is used", () => {
  it.skipIf(!stripsTypes)("if Node strips its types (skipped if it doesn't)", async () => {
    const { run } = await placeOfTypeScript();
    expect(await run()).toMatchObject({ code: 0, stdout: expect.stringContaining('"taskId":"of-config"') });
  });

  it.skipIf(stripsTypes)(
    "and otherwise the command says which Node it needs (skipped if Node strips types)",
    async () => {
      const { cwd, run } = await placeOfTypeScript();
      expect(await run()).toEqual({
        code: 2,
        stdout: "",
        stderr:
          `waymark: The configuration in ${join(cwd, "waymark.config.ts")} can't be used: it needs Node 22.18 or newer, ` +
          `which strips its types, and this is Node ${process.version}. Rename it to waymark.config.mjs, without types.\n`,
      });
    },
  );
});
