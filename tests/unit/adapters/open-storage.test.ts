import { describe, expect, it } from "vitest";
import { CheckpointManager, UnsupportedOperationError } from "waymark";
import { openStorage } from "waymark/adapters";
import { tempFolder } from "../../support/temp-folder.js";

describe("openStorage", () => {
  it.each([
    ["files:store", "json-file"],
    ["tasks:store", "task-file"],
    ["sqlite:store/checkpoints.db", "sqlite"],
    ["SQLITE:store.db", "sqlite"],
  ])("opens %s, relative to the folder it is told", async (url, name) => {
    const folder = await tempFolder();
    const open = async () => new CheckpointManager({ storage: await openStorage(url, { relativeTo: folder }) });
    const first = await open();
    await first.save("t", { n: 1 });
    await first.close();

    const second = await open();
    expect((await second.latest("t"))?.state).toEqual({ n: 1 });
    await second.close();
    expect((await openStorage(url)).name).toBe(name);
  });

  it("takes three slashes for an absolute path, and ~/ for the home folder", async () => {
    const folder = await tempFolder();
    const manager = new CheckpointManager({ storage: await openStorage(`files://${folder}/store`) });
    await manager.save("t", 1);
    await manager.close();
    const plain = new CheckpointManager({ storage: await openStorage(`files:${folder}/store`) });
    expect(await plain.has("t")).toBe(true);
    await plain.close();
    await expect(openStorage(`files:~/nowhere-${process.pid}`)).resolves.toMatchObject({ name: "json-file" });
  });

  it("says that PostgreSQL comes later, and keeps the password to itself", async () => {
    const opening = openStorage("postgres://user:secret@host/db");
    await expect(opening).rejects.toThrow(/PostgreSQL comes with a later version/);
    await expect(opening).rejects.toBeInstanceOf(UnsupportedOperationError);
    await expect(opening).rejects.not.toThrow(/secret/);
  });

  it.each(["redis://localhost", "constructor:x", "file:x"])("refuses the unknown scheme of %s", async (url) => {
    await expect(openStorage(url)).rejects.toMatchObject({ code: "UNSUPPORTED_OPERATION" });
  });

  it.each(["checkpoints.db", "sqlite:", "", "sqlite://data/x.db", "C:\\store"])(
    "refuses %j with what to write",
    async (url) => {
      await expect(openStorage(url)).rejects.toThrow(TypeError);
      await expect(openStorage(url)).rejects.toThrow(/Write /);
    },
  );

  it("refuses a misspelled option", async () => {
    await expect(openStorage("files:x", { relativTo: "/" } as object)).rejects.toThrow(/relativTo/);
  });
});
