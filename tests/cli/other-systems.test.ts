// Checkpoints in another system's format are read like any others, and shown as that system's.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { createBuildCheckpoints } from "waymark/builds";
import { CheckpointRepository } from "waymark/oneshot";
import { createCheckpoint } from "waymark/phase-checkpoints";
import { newPlace, waymark } from "./waymark.js";

const SYSTEMS = [
  ["sqlite:builds.db", "a database of waymark/builds", "b"],
  ["files:.sdp/checkpoints", "checkpoints of waymark oneshot", "F01"],
  ["tasks:.pai/checkpoints", "checkpoints of waymark/phase-checkpoints", "s1"],
  ["tasks:session", "a session of waymark prp", "P1"],
] as const;

/** A folder with the checkpoints of every system. */
async function placeOfAll() {
  const { cwd, manager, open } = await newPlace();
  await manager.close();
  const builds = createBuildCheckpoints({ path: join(cwd, "builds.db") });
  for (const id of ["c1", "c2"]) {
    builds.saveCheckpoint({ id, buildId: "b", tasks: [{ id: "compile", made: id }], currentPhase: 1 });
  }
  builds.close();
  const feature = { featureId: "F01", agentId: "a", currentWs: "w2", startTime: new Date(), lastUpdate: new Date() };
  await new CheckpointRepository(cwd).save({ ...feature, status: "failed", completedWs: ["w1"] });
  const checkpointsDir = join(cwd, ".pai", "checkpoints");
  for (const phaseNumber of [1, 2]) {
    await createCheckpoint("build", phaseNumber, "A task", [], { phaseNumber }, { checkpointsDir, sessionId: "s1" });
  }
  const session = await open("tasks:session/artifacts");
  for (const gate of [1, 2]) await session.save("P1", { gate });
  await session.close();
  return { cwd, run: (url: string, ...args: string[]) => waymark({ cwd }, [...args, "--storage", url]) };
}

describe("checkpoints of a system that has a format of its own", () => {
  it.each(SYSTEMS)("are shown if the URL is %s, as %s", async (url, what, task) => {
    const { run } = await placeOfAll();
    const note = expect.stringMatching(new RegExp(`^[^\\n]* has ${what}\\. [^\\n]*\\n`));
    const tasks = await run(url, "tasks", "--json");
    expect(tasks).toMatchObject({ code: 0, stderr: note });
    expect(JSON.parse(tasks.stdout)).toMatchObject([{ taskId: task, count: task === "F01" ? 1 : 2 }]);

    const list = await run(url, "list", task, "--json");
    expect(list).toMatchObject({ code: 0, stderr: note });
    const [newest] = JSON.parse(list.stdout);
    expect(await run(url, "show", task, newest.id, "--json")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(newest.id),
    });
    expect(await run(url, "resume")).toMatchObject({ code: 0, stdout: expect.stringContaining(task) });
    expect(await run(url, "verify")).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/1 task .*nothing is wrong/),
    });
    if (task === "F01") return;
    expect(await run(url, "diff", task)).toMatchObject({ code: 0, stdout: expect.stringContaining("@1") });
  });

  it("are named, each with its URL, if several systems share a folder", async () => {
    const { cwd, run } = await placeOfAll();
    for (const command of ["tasks", "verify", "export"]) {
      const { code, stdout, stderr } = await run("files:.", command);
      expect([code, stdout]).toEqual([2, ""]);
      for (const folder of [".sdp", ".pai"])
        expect(stderr).toContain(`--storage files:${join(cwd, folder, "checkpoints")}`);
    }
  });

  it("of builds keep their order and their times, including a killed program's in the log", async () => {
    const { cwd, run } = await placeOfAll();
    const builds = createBuildCheckpoints({ path: join(cwd, "builds.db") });
    const saved = builds.saveCheckpoint({ id: "c3", buildId: "b", tasks: [], currentPhase: 2 });
    mkdirSync(join(cwd, "killed"));
    for (const suffix of ["", "-wal"])
      copyFileSync(join(cwd, `builds.db${suffix}`), join(cwd, "killed", `b.db${suffix}`));
    builds.close();
    const before = contentOf(cwd);
    for (const url of ["sqlite:builds.db", "sqlite:killed/b.db"]) {
      const list = JSON.parse((await run(url, "list", "b", "--json")).stdout);
      expect(list.map(({ id, sequence }: { id: string; sequence: number }) => [id, sequence])).toEqual([
        ["c3", 3],
        ["c2", 2],
        ["c1", 1],
      ]);
      expect(list[0].createdAt).toBe(new Date(`${saved.timestamp}Z`).toISOString());
    }
    expect(contentOf(cwd)).toEqual(before);
  });

  it.each(SYSTEMS)("can't be changed if the URL is %s", async (url, what, task) => {
    const { cwd, run } = await placeOfAll();
    const before = contentOf(cwd);
    const commands = [
      ["delete", task, "--yes"],
      ["complete", task, "--yes"],
      ["fork", task, "@latest", "new"],
      ["rewind", task, "@latest"],
      ["repair", "--yes"],
    ];
    // A feature of oneshot has only one checkpoint, so there is nothing to prune.
    if (task !== "F01") commands.push(["prune", "--all", "--keep-last", "1", "--yes"]);
    for (const command of commands) {
      expect(await run(url, ...command)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("nothing was changed"),
      });
    }
    expect(contentOf(cwd)).toEqual(before);
    expect(await run(url, "import")).toMatchObject({ code: 2, stderr: expect.stringContaining(what) });
  });

  it("that are damaged are reported, and the others are shown", async () => {
    const { cwd, run } = await placeOfAll();
    const write = (path: string) => {
      mkdirSync(join(cwd, dirname(path)), { recursive: true });
      writeFileSync(join(cwd, path), "{");
    };
    write(".sdp/checkpoints/F02.json");
    write(".pai/checkpoints/ckpt-20261123T010203000Z-build.json");
    for (const url of ["files:.sdp/checkpoints", "tasks:.pai/checkpoints"]) {
      expect(await run(url, "tasks")).toMatchObject({ code: 5, stderr: expect.stringContaining("damaged record at") });
      expect(await run(url, "verify")).toMatchObject({ code: 1, stdout: expect.stringContaining("1 finding") });
    }
  });
});

/** Every file of the folder. */
function contentOf(folder: string): Readonly<Record<string, string>> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files.map(({ parentPath, name }) => join(parentPath, name));
  return Object.fromEntries(paths.sort().map((path) => [path, readFileSync(path, "latin1")]));
}
