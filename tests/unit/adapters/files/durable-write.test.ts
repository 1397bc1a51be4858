import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { makeFile, makeFolder, syncFolder, writeDurably } from "../../../../adapters/files/durable-write.js";
import { tempFolder } from "../../../support/temp-folder.js";

describe("makeFile and writeDurably", () => {
  it("write a file that only its owner can read", async () => {
    const path = join(await tempFolder(), "file");
    await writeDurably(makeFile(path), Buffer.from("content"));
    expect(readFileSync(path, "utf8")).toBe("content");
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it("write some megabytes to the byte", async () => {
    const path = join(await tempFolder(), "file");
    const content = Buffer.alloc(3 * 1024 * 1024 + 7, "0123456789abcdef");
    await writeDurably(makeFile(path), content);
    expect(readFileSync(path).equals(content)).toBe(true);
  });

  it("write an empty file", async () => {
    const path = join(await tempFolder(), "file");
    await writeDurably(makeFile(path), Buffer.alloc(0));
    expect(statSync(path).size).toBe(0);
  });

  it("never write over a file, nor through a link", async () => {
    const folder = await tempFolder();
    writeFileSync(join(folder, "file"), "former");
    symlinkSync(join(folder, "elsewhere"), join(folder, "link"));
    for (const name of ["file", "link"]) expect(() => makeFile(join(folder, name))).toThrow(/EEXIST/);
    expect(readFileSync(join(folder, "file"), "utf8")).toBe("former");
    expect(existsSync(join(folder, "elsewhere"))).toBe(false);
  });
});

describe("syncFolder", () => {
  it("fails with the system's error where there is no folder", async () => {
    await expect(syncFolder(join(await tempFolder(), "nowhere"))).rejects.toMatchObject({ code: "ENOENT" });
  });
});

describe("makeFolder", () => {
  it("fails, rather than trying for ever, where the folder above is there and takes no folder", async () => {
    const root = await tempFolder();
    symlinkSync(join(root, "nowhere"), join(root, "link"));
    await expect(makeFolder(join(root, "link", "below"))).rejects.toMatchObject({ code: "ENOENT" });
  });
});
