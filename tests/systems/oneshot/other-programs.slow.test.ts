import { mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { CheckpointRepository } from "waymark/oneshot";
import { chain, Project } from "../../runners/oneshot/project.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { visibleIn } from "../../support/visible-files.js";

const FOREIGN = '{"version":2,"steps":["plan","build"]}\n';
/** Another program's state that also has a feature. */
const LOOP =
  '{ "schema_version": 2, "skill": "loop", "feature_id": "F01", "phase": 3, "step": "review", "ws_done": ["00-166-01"], "ws_in_progress": [] }\n';

/** A checkpoint of the spec's program. */
const SPEC = {
  feature_id: "F01",
  agent_id: "a",
  status: "running",
  completed_ws: [],
  current_ws: "a",
  start_time: "2026-02-05T10:00:00Z",
  last_update: "2026-02-05T10:30:00Z",
};

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
  it.each([
    FOREIGN,
    LOOP,
    LOOP.slice(0, 60),
    "[]",
    "null",
    "{}",
    '"text"',
    '{"version":',
    "hello",
    '{"waymark":1}',
    "---\nfeature_id: F01\n",
    JSON.stringify({ ...SPEC, feature_id: "F02" }),
    JSON.stringify({ ...SPEC, status: "done" }),
  ])("is left untouched by every call, which says so: %s", async (text) => {
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
      await expect(call()).rejects.toThrow(
        /Nothing in it shows that Waymark wrote it, so it was left untouched\. Use another/,
      );
      await expect(call()).rejects.not.toThrow(/delete|repair|restart/i);
    }
    expect([await readFile(path, "utf8"), await project.files()]).toEqual([text, ["F01.json"]]);
    expect(await project.log()).toEqual([]);
  });

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

  it("is named with the fields that it lacks", async () => {
    const { project } = await sharedProject(LOOP);
    await expect(project.repository.load("F01")).rejects.toThrow(
      "it has no agent_id, status, completed_ws, current_ws, start_time, last_update.",
    );
  });

  it("may be a link, which stays, and so does its target", async () => {
    const { project, path } = await sharedProject();
    await rm(path);
    await symlink("target", path);
    await writeFile(join(dirname(path), "target"), FOREIGN);
    await expect(project.run(chain("a"), { restart: true })).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT" });
    expect(await readFile(path, "utf8")).toBe(FOREIGN);
  });
});

describe("a damaged checkpoint file of Waymark's own, or of the spec's program,", () => {
  const bytes = Buffer.from(JSON.stringify(SPEC, null, 2));
  const ours = Buffer.from(JSON.stringify({ ...SPEC, waymark: { plan: "p.yaml", sha256: "0".repeat(64) } }, null, 2));
  const cut = (length: number): [string, Buffer] => [`cut to ${length} bytes`, ours.subarray(0, length)];
  it.each<[string, Buffer]>([
    cut(0),
    cut(1),
    cut(20),
    cut(60),
    cut(ours.length - 1),
    ["of the spec's program, cut short", bytes.subarray(0, 100)],
    ["with zeros in place of its end", Buffer.concat([ours.subarray(0, 50), Buffer.alloc(ours.length - 50)])],
    ["that is all zeros", Buffer.alloc(ours.length)],
    ["whose first letters have changed", Buffer.concat([Buffer.from("??"), ours.subarray(2)])],
    ["that fails its checksum", ours],
    ["with a status that doesn't exist", Buffer.from(ours.toString().replace("running", "done"))],
  ])("is corrupt, and a restart sets it aside: one %s", async (_what, content) => {
    const { project, path } = await sharedProject();
    await writeFile(path, content);
    await expect(project.repository.load("F01")).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });

    const options = { restart: true, logger: recordingLogger() };
    expect((await project.run(chain("a"), options)).result.success).toBe(true);
    const [aside = "", ...others] = await project.files();
    expect([aside, others]).toEqual([expect.stringMatching(/^F01\.json\.damaged-/), []]);
    expect(await readFile(join(dirname(path), aside))).toEqual(content);
  });
});
