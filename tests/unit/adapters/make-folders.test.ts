import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { makeFolders } from "../../../adapters/files/make-folders.js";
import { errorOfProgram } from "../../support/error-of-program.js";
import { tempFolder } from "../../support/temp-folder.js";

describe("makeFolders", () => {
  it("makes all that is missing, for its owner alone, each only once the name above it may be synced", async () => {
    const root = await tempFolder();
    const [a, b, c] = [join(root, "a"), join(root, "a", "b"), join(root, "a", "b", "c")] as const;
    expect([...makeFolders(a)]).toEqual([dirname(root), root]);
    const making = makeFolders(c);
    expect(making.next().value).toBe(root);
    expect(existsSync(b)).toBe(false);
    expect(making.next().value).toBe(a);
    expect(existsSync(c)).toBe(false);
    expect([...making]).toEqual([b]);
    for (const path of [a, b, c]) expect(statSync(path).mode & 0o777).toBe(0o700);
  });

  it("has the name of a folder synced that is there, since who made it may have died before it came to that", async () => {
    const root = await tempFolder();
    const a = join(root, "a");
    mkdirSync(a);
    expect([...makeFolders(a)]).toEqual([root]);
  });

  it("fails with the system's error where a file is in the way", async () => {
    const file = join(await tempFolder(), "file");
    writeFileSync(file, "");
    expect(() => [...makeFolders(join(file, "a", "b"))]).toThrow(expect.objectContaining({ code: "ENOTDIR" }));
  });
});

// Node's own recursive mkdir never ends there.
describe.runIf(process.platform === "linux")(
  "a store in /proc, which makes no folder and says ENOENT (skipped where there is none)",
  () => {
    it.each([
      ["json-file", "JsonFileAdapter", "/proc/waymark/store"],
      ["task-file", "TaskFileAdapter", "/proc/waymark/store"],
      ["sqlite", "SqliteAdapter", "/proc/waymark/store/checkpoints.db"],
    ])("is a storage error, and no hang: %s", (module, adapter, path) => {
      const error = errorOfProgram(`
      const { CheckpointManager } = await import("waymark");
      const { ${adapter} } = await import("waymark/adapters/${module}");
      await new CheckpointManager({ storage: new ${adapter}({ path: "${path}" }) }).save("t", 1);
    `);
      expect(error).toMatchObject({ name: "StorageError", code: "STORAGE_FAILED" });
      expect(error?.message).toContain("/proc/waymark");
    });
  },
);
