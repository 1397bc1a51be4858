import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { makeFolders, syncFolder, writeDurably } from "../../../../adapters/files/file-io.js";
import { errorOfProgram } from "../../../support/error-of-program.js";
import { tempFolder } from "../../../support/temp-folder.js";

describe("writeDurably", () => {
  it("writes a file that only its owner can read", async () => {
    const path = join(await tempFolder(), "file");
    await writeDurably(path, Buffer.from("content"));
    expect(readFileSync(path, "utf8")).toBe("content");
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it.each([0, 3 * 1024 * 1024 + 7])("writes %i bytes unchanged", async (length) => {
    const path = join(await tempFolder(), "file");
    const content = Buffer.alloc(length, "0123456789abcdef");
    await writeDurably(path, content);
    expect(readFileSync(path).equals(content)).toBe(true);
  });

  it("never overwrites a file, and never writes through a link", async () => {
    const folder = await tempFolder();
    writeFileSync(join(folder, "file"), "former");
    symlinkSync(join(folder, "elsewhere"), join(folder, "link"));
    for (const name of ["file", "link"]) {
      await expect(writeDurably(join(folder, name), Buffer.from("x"))).rejects.toThrow(/EEXIST/);
    }
    expect(readFileSync(join(folder, "file"), "utf8")).toBe("former");
    expect(existsSync(join(folder, "elsewhere"))).toBe(false);
  });
});

it("syncFolder fails with the system's error if there is no folder", async () => {
  await expect(syncFolder(join(await tempFolder(), "nowhere"))).rejects.toMatchObject({ code: "ENOENT" });
});

describe("makeFolders", () => {
  it("makes all missing folders, for their owner alone, and leaves existing ones", async () => {
    const root = await tempFolder();
    mkdirSync(join(root, "a"), { mode: 0o750 });
    await makeFolders(join(root, "a", "b", "c"));
    await makeFolders(join(root, "a", "b", "c"));
    const modes = ["a", "a/b", "a/b/c"].map((name) => statSync(join(root, name)).mode & 0o777);
    expect(modes).toEqual([0o750, 0o700, 0o700]);
  });

  it("fails with the system's error if a file is in the way", async () => {
    const file = join(await tempFolder(), "file");
    writeFileSync(file, "");
    await expect(makeFolders(join(file, "a", "b"))).rejects.toMatchObject({ code: "ENOTDIR" });
  });

  // Node's own recursive mkdir would never return here.
  it.runIf(process.platform === "linux").each([
    ["json-file", "JsonFileAdapter"],
    ["task-file", "TaskFileAdapter"],
  ])("fails in /proc, where no folder can be made: %s (skipped if there is no /proc)", (module, adapter) => {
    const error = errorOfProgram(`
      const { CheckpointManager } = await import("waymark");
      const { ${adapter} } = await import("waymark/adapters/${module}");
      await new CheckpointManager({ storage: new ${adapter}({ path: "/proc/waymark/store" }) }).save("t", 1);
    `);
    expect(error).toMatchObject({ name: "StorageError", code: "STORAGE_FAILED" });
    expect(error?.message).toContain("/proc/waymark");
  });
});
