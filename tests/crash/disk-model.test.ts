import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempFolder } from "../support/temp-folder.js";
import { DiskModel, type Fate } from "./disk-model.js";
import { parseRecord } from "./system-calls.js";

const hex = (text: string) =>
  `"${[...Buffer.from(text)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")}"`;

/** Returns the disk after a power loss in which all unsynced changes have the same fate, by default `lost`. */
async function leftBy(calls: (folder: string) => readonly string[], fate: Fate = "lost") {
  const folder = await tempFolder();
  mkdirSync(join(folder, "t"));
  writeFileSync(join(folder, "t", "old"), "old");
  const lines = [`access(${hex("/waymark-crash-test-begins")}, F_OK) = -1 ENOENT (No such file)`, ...calls(folder)];
  const model = new DiskModel(folder);
  for (const _ of model.run(
    parseRecord(lines.map((line) => (/^2 /.test(line) ? line : `1 ${line}`)).join("\n")).ofStore,
  ));
  const disk = model.afterLoss(model.openKinds().map(() => fate));
  return Object.fromEntries([...disk.entries()].map(([path, content]) => [path, content?.toString()]));
}

const open = (path: string) => `openat(AT_FDCWD, ${hex(path)}, O_WRONLY|O_CREAT|O_EXCL, 0600) = 5`;
const write = (text: string) => `write(5, ${hex(text)}, ${text.length}) = ${text.length}`;
const syncFolder = (path: string) => [`openat(AT_FDCWD, ${hex(path)}, O_RDONLY) = 6`, "fsync(6) = 0", "close(6) = 0"];

describe("the model of a forgetful disk", () => {
  it("loses the name of a file whose data was synced, until its folder is", async () => {
    const made = (folder: string) => [open(join(folder, "t/new")), write("new"), "fsync(5) = 0", "close(5) = 0"];
    expect(await leftBy(made)).not.toHaveProperty("t/new");
    expect(await leftBy((folder) => [...made(folder), ...syncFolder(join(folder, "t"))])).toHaveProperty(
      ["t/new"],
      "new",
    );
  });

  it("keeps the name of a file, in a synced folder, without the data that was not synced", async () => {
    const made = (folder: string) => [open(join(folder, "t/new")), write("new"), ...syncFolder(join(folder, "t"))];
    expect(await leftBy(made)).toHaveProperty(["t/new"], "");
    expect(await leftBy(made, "zeros")).toHaveProperty(["t/new"], "\0\0\0");
  });

  it("puts appended data at the end of the file, whatever its size was at open", async () => {
    const appended = (folder: string) => [
      `openat(AT_FDCWD, ${hex(join(folder, "t/old"))}, O_WRONLY|O_APPEND) = 5`,
      write(" one"),
      write(" two"),
    ];
    expect(await leftBy(appended, "kept")).toHaveProperty(["t/old"], "old one two");
    expect(await leftBy(appended)).toHaveProperty(["t/old"], "old");
    expect(await leftBy((folder) => [...appended(folder), "fdatasync(5) = 0"])).toHaveProperty(
      ["t/old"],
      "old one two",
    );
  });

  it("undoes a rename, and brings back what it replaced", async () => {
    const renamed = (folder: string) => [
      open(join(folder, "t/new")),
      write("new"),
      "fsync(5) = 0",
      `rename(${hex(join(folder, "t/new"))}, ${hex(join(folder, "t/old"))}) = 0`,
    ];
    expect(await leftBy(renamed)).toEqual({ "": undefined, t: undefined, "t/old": "old" });
    const synced = await leftBy((folder) => [...renamed(folder), ...syncFolder(join(folder, "t"))]);
    expect(synced).toEqual({ "": undefined, t: undefined, "t/old": "new" });
  });

  it("syncs the writes from before an fsync began, but not the writes during it", async () => {
    const left = await leftBy((folder) => [
      open(join(folder, "t/new")),
      ...syncFolder(join(folder, "t")),
      write("one "),
      // On another thread.
      "2 fsync(5 <unfinished ...>",
      write("two"),
      "2 <... fsync resumed>) = 0",
    ]);
    expect(left).toHaveProperty(["t/new"], "one ");
  });

  it("reuses a descriptor's number for the next file as soon as its close begins", async () => {
    const left = await leftBy((folder) => [
      'openat(AT_FDCWD, "\\x2f", O_RDONLY) = 5',
      // On another thread.
      "2 close(5 <unfinished ...>",
      open(join(folder, "t/new")),
      "2 <... close resumed>) = 0",
      write("new"),
      "fsync(5) = 0",
      ...syncFolder(join(folder, "t")),
    ]);
    expect(left).toHaveProperty(["t/new"], "new");
  });

  it("leaves a change in doubt forever after a failed fsync, but not after an interrupted one", async () => {
    const failingWith = (error: string) => (folder: string) => [
      open(join(folder, "t/new")),
      ...syncFolder(join(folder, "t")),
      write("new"),
      `fsync(5) = -1 ${error} (made to fail) (INJECTED)`,
      "fsync(5) = 0",
    ];
    expect(await leftBy(failingWith("EIO"))).toHaveProperty(["t/new"], "");
    expect(await leftBy(failingWith("EINTR"))).toHaveProperty(["t/new"], "new");
  });
});
