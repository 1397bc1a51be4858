import { afterEach, describe, expect, it, vi } from "vitest";
import { StorageError } from "waymark";
import { CheckpointRepository, type OneshotCheckpoint } from "waymark/oneshot";
import { arm, faults } from "../../support/failing-fs.js";
import { tempFolder } from "../../support/temp-folder.js";

vi.mock("node:fs", async (original) => {
  const { failingFs } = await import("../../support/failing-fs.js");
  return failingFs(await original());
});

afterEach(() => arm(0));

function checkpoint(currentWs: string): OneshotCheckpoint {
  const at = new Date();
  const rest = { status: "running", completedWs: [], startTime: at, lastUpdate: at } as const;
  return { featureId: "F01", agentId: "a", currentWs, ...rest };
}

const CALLS: Record<string, (repository: CheckpointRepository) => Promise<void>> = {
  save: (repository) => repository.save(checkpoint("new")),
  delete: (repository) => repository.delete("F01"),
};

describe("when a file system call fails", () => {
  it.each(Object.entries(CALLS))(
    "%s leaves the old checkpoint or is done, and can be called again",
    async (name, call) => {
      for (let failing = 1; ; failing++) {
        const repository = new CheckpointRepository(await tempFolder());
        await repository.save(checkpoint("old"));

        arm(failing);
        const error = await call(repository).catch((thrown: unknown) => thrown);
        const { calls, names } = faults;
        arm(0);

        const where = `call ${failing}, ${names[failing - 1]}`;
        if (error !== undefined) expect(error, where).toBeInstanceOf(StorageError);
        const isThere = await repository.exists("F01");
        const left = isThere ? (await repository.load("F01")).currentWs : "nothing";
        const done = name === "save" ? "new" : "nothing";
        expect(error === undefined ? [done] : ["old", done], where).toContain(left);
        await call(repository);
        if (calls < failing) return;
      }
    },
  );

  it("a list is complete, or an error", async () => {
    const repository = new CheckpointRepository(await tempFolder());
    await repository.save(checkpoint("old"));
    for (let failing = 1; ; failing++) {
      arm(failing);
      const found = await repository.list().catch((thrown: unknown) => thrown);
      const { calls } = faults;
      arm(0);
      if (found instanceof Error) expect(found).toBeInstanceOf(StorageError);
      else expect(found).toEqual(["F01"]);
      if (calls < failing) return;
    }
  });
});
