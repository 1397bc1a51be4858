import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { CheckpointRepository } from "waymark/oneshot";
import { chain, Project } from "../../runners/oneshot/project.js";
import { visibleIn } from "../../support/visible-files.js";

const FOREIGN = '{"version":2,"steps":["plan","build"]}\n';

/** A project in which another program has written `.sdp/checkpoints/F01.json`. */
async function sharedProject(text = FOREIGN) {
  const project = await Project.create();
  const path = join(project.repository.checkpointDir, "F01.json");
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
  return { project, path };
}

const now = new Date();
const CHECKPOINT = {
  featureId: "F01",
  agentId: "a",
  status: "running",
  completedWs: [],
  currentWs: "",
  startTime: now,
  lastUpdate: now,
} as const;

describe("a checkpoint file that another program wrote", () => {
  it.each([FOREIGN, "[]", "null", "{}", '"text"'])(
    "is left untouched by every call, which says so: %s",
    async (text) => {
      const { project, path } = await sharedProject(text);
      const { repository } = project;
      const isSaid = {
        code: "UNSUPPORTED_FORMAT",
        message: expect.stringContaining(`${path} is no checkpoint of feature "F01"`),
      };
      for (const call of [
        () => repository.load("F01", { force: true }),
        () => repository.save(CHECKPOINT),
        () => repository.delete("F01"),
        () => project.run(chain("a")),
        () => project.run(chain("a"), { resume: true, force: true }),
        () => project.run(chain("a"), { restart: true }),
      ]) {
        await expect(call()).rejects.toMatchObject(isSaid);
        await expect(call()).rejects.toThrow("another program wrote it. It was left untouched.");
      }
      expect([await readFile(path, "utf8"), await project.files()]).toEqual([text, ["F01.json"]]);
      expect(await project.log()).toEqual([]);
    },
  );

  it("hinders nothing in another folder, which may be anywhere", async () => {
    const { project, path } = await sharedProject();
    const checkpointDir = join(project.path, "state", "oneshot");
    const failing = { workstreams: [{ id: "a", command: "echo a >> log; test -e mended" }] };
    expect((await project.run(failing, { checkpointDir })).result.success).toBe(false);
    const repository = new CheckpointRepository(project.path, { checkpointDir });
    expect(repository.checkpointDir).toBe(checkpointDir);
    expect(await repository.load("F01")).toMatchObject({ status: "failed", currentWs: "a" });
    expect(repository.isBeingRun("F01")).toBe(false);

    await project.write("mended");
    expect((await project.run(failing, { checkpointDir, resume: true })).result.success).toBe(true);
    expect(await visibleIn(checkpointDir)).toEqual([]);
    expect(await readFile(path, "utf8")).toBe(FOREIGN);
  });

  it("is corrupt only if it can't be parsed, or has Waymark's checksum", async () => {
    for (const text of ['{"version":', '{"waymark":{"sha256":"0"}}']) {
      const { project } = await sharedProject(text);
      await expect(project.repository.load("F01")).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
      await project.repository.delete("F01");
      expect(await project.files()).toEqual([]);
    }
  });
});
