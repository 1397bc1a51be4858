import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { inspectLocation } from "../../cli/src/storage-location.js";
import { tempFolder } from "../support/temp-folder.js";

describe("storagePlace", () => {
  it("reports which kind of storage there is, whichever kind is requested", async () => {
    const relativeTo = await tempFolder();
    for (const scheme of ["files", "tasks", "sqlite"] as const) {
      const manager = new CheckpointManager({ storage: openStorage(`${scheme}:of-${scheme}`, { relativeTo }) });
      await manager.save("t".repeat(300), 1);
      await manager.close();
      for (const asked of ["files", "tasks", "sqlite"] as const) {
        const path = join(relativeTo, `of-${scheme}`);
        const place = await inspectLocation(`${asked}:of-${scheme}`, { relativeTo });
        expect(place).toEqual({ scheme: asked, path, isThere: true, holds: scheme });
      }
    }
  });

  it("returns the requested kind if there are several", async () => {
    const relativeTo = await tempFolder();
    for (const scheme of ["files", "tasks"] as const) {
      const manager = new CheckpointManager({ storage: openStorage(`${scheme}:both`, { relativeTo }) });
      await manager.save("t", 1);
      await manager.close();
    }
    expect(await inspectLocation("files:both", { relativeTo })).toMatchObject({ holds: "files" });
    expect(await inspectLocation("tasks:both", { relativeTo })).toMatchObject({ holds: "tasks" });
  });

  it("still recognizes a task of which only the numbering is left", async () => {
    const relativeTo = await tempFolder();
    const manager = new CheckpointManager({ storage: openStorage("files:store", { relativeTo }) });
    const { id } = await manager.save("t", 1);
    await manager.remove("t", id);
    await manager.close();
    expect(await inspectLocation("tasks:store", { relativeTo })).toMatchObject({ holds: "files" });
  });

  it("sees no storage in an empty place, nor in other programs' files", async () => {
    const relativeTo = await tempFolder();
    expect(await inspectLocation("files:none", { relativeTo })).toMatchObject({ isThere: false });
    mkdirSync(join(relativeTo, "other", "src"), { recursive: true });
    writeFileSync(join(relativeTo, "other", "src", "index.ts"), "");
    writeFileSync(join(relativeTo, "other", "checkpoints.json"), "{}");
    for (const scheme of ["files", "tasks", "sqlite"]) {
      const place = await inspectLocation(`${scheme}:other`, { relativeTo });
      expect([place.isThere, place.holds]).toEqual([true, undefined]);
    }
  });

  it("recognizes a text file, and takes neither an empty file nor a damaged database for one", async () => {
    const relativeTo = await tempFolder();
    const manager = new CheckpointManager({ storage: openStorage("sqlite:database", { relativeTo }) });
    await manager.save("t", 1);
    await manager.close();
    const database = readFileSync(join(relativeTo, "database"));
    for (const [name, content, holds] of [
      ["notes", "grüße\r\n\tfrom here\n".repeat(20), "text"],
      ["short", "no", "text"],
      ["empty", "", undefined],
      ["damaged", database.fill(0, 0, 16), undefined],
      ["picture", Buffer.from("89504e470d0a1a0a0000000d49484452", "hex"), undefined],
    ] as const) {
      writeFileSync(join(relativeTo, name), content);
      expect({ name, holds: (await inspectLocation(`sqlite:${name}`, { relativeTo })).holds }).toEqual({ name, holds });
    }
  });

  it("fails instead of guessing if it can't read the place", async () => {
    const relativeTo = await tempFolder();
    writeFileSync(join(relativeTo, "file"), "");
    await expect(inspectLocation("files:file/store", { relativeTo })).rejects.toThrow(/Could not look for a storage/);
  });
});
