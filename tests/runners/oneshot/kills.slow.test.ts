import { mkdir, readFile, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { OneshotPlan, WorkstreamFolder } from "waymark-runners/oneshot";
import { tenth } from "../../crash/extent.js";
import { Moments, momentOf } from "../../support/moments.js";
import { outcomeOf, Project } from "./project.js";

/**
 * A workstream notes its beginning and its end. Some depend on others, so that some always run and some always wait.
 */
const WORK = Array.from({ length: 12 }, (_, i) => ({
  id: `w${i}`,
  command: `echo "begin w${i} $$" >> log; sleep 0.0${(i % 4) + 2}; echo "end w${i} $$" >> log; touch effect-w${i}`,
  dependsOn: i < 4 ? [] : [`w${i - 4}`, `w${i - 3}`],
}));
const IDS = WORK.map(({ id }) => id);

/** The workstreams as a plan and as workstream files. Makes the needed files in the project. */
const FORMS: readonly [string, (project: Project) => Promise<OneshotPlan | WorkstreamFolder>][] = [
  ["a plan", async () => ({ workstreams: WORK })],
  [
    "workstream files",
    async ({ path }) => {
      await mkdir(join(path, "docs"));
      const front = (fields: string) => `---\nfeature: F01\n${fields}\n---\n`;
      await writeFile(join(path, "docs", "author.md"), front("ws_id: author\nstatus: completed"));
      for (const { id, dependsOn } of WORK) {
        const fields = `ws_id: ${id}\nstatus: backlog\ndepends_on: [${["author", ...dependsOn].join(", ")}]`;
        await writeFile(join(path, "docs", `${id}.md`), front(fields));
      }
      const command = `echo "begin $WS $$" >> log; sleep 0.0$((\${WS#w} % 4 + 2)); echo "end $WS $$" >> log; touch effect-$WS`;
      return { workstreams: "docs", command };
    },
  ],
];

describe.each(FORMS)("a run of %s with jobs: 4 that is killed with kill -9 at a random moment", (form, planIn) => {
  let measured: Promise<number> | undefined;

  /**
   * Kills the run at that moment: at a line of output, a change in its checkpoints' folder, or one in its project's
   * folder.
   */
  async function runUntil(project: Project, moment: number) {
    await mkdir(project.repository.checkpointDir, { recursive: true });
    const plan = await planIn(project);
    const moments = new Moments([project.repository.checkpointDir, project.path], (count) => {
      if (count === moment) run.kill("SIGKILL");
    });
    const { run } = project.spawn(plan, { jobs: 4 });
    run.stdout.on("data", () => moments.add());
    const { stdout } = await run;
    moments.close();
    await ageLock(project);
    return { plan, stdout, count: moments.count };
  }

  /** Ages the lock, as if the ten seconds had passed after which a killed process's lock is free. */
  async function ageLock(project: Project): Promise<void> {
    const past = new Date(Date.now() - 60_000);
    await utimes(join(project.repository.checkpointDir, "F01.json.lock"), past, past).catch((error: unknown) => {
      expect(error).toMatchObject({ code: "ENOENT" });
    });
  }

  /** Returns the number of moments of an undisturbed run. */
  async function measure(): Promise<number> {
    const { stdout, count } = await runUntil(await Project.create(), Number.POSITIVE_INFINITY);
    expect(outcomeOf(stdout)).toMatchObject({ result: { success: true } });
    return count;
  }

  it.each(Array.from({ length: tenth === undefined ? 20 : 8 }, (_, seed) => seed))(
    "seed %d: ends after resume with the right result",
    async (seed) => {
      const project = await Project.create();
      measured ??= measure();
      const count = await measured;
      const at = momentOf(seed, count);
      const { plan } = await runUntil(project, at);
      const moment = `${form}, seed ${seed}: killed at moment ${at} of ${count}`;
      const isLeft = await project.repository.exists("F01");
      // If it was killed before its first entry, it has started nothing, and there is nothing to resume.
      const hasBegun = isLeft || (await project.log()).length > 0;
      const completedAtEnd = hasBegun ? IDS : [];
      const completed = isLeft ? (await project.repository.load("F01")).completedWs : completedAtEnd;

      const options = { jobs: 4, resume: hasBegun };
      const resumed = await project.run(plan, options).catch((error: unknown) => ({ error }));

      if ("error" in resumed)
        expect({ error: resumed.error, isLeft }, moment).toMatchObject({
          error: { code: "CHECKPOINT_NOT_FOUND" },
          isLeft: false,
        });
      else expect(resumed.result, moment).toMatchObject({ success: true, completed: expect.arrayContaining(IDS) });
      expect(await project.log(), moment).not.toContainEqual(expect.stringContaining("author"));
      const lines = (await project.log()).map((line) => line.split(" ") as [string, string, string]);
      for (const id of IDS) {
        const own = lines.filter(([, name]) => name === id);
        const effect = await readFile(join(project.path, `effect-${id}`), "utf8").catch(() => "none");
        expect(effect, `${moment}: the effect of ${id}`).toBe("");
        // A workstream that the checkpoint names as completed has run once, from beginning to end.
        if (completed.includes(id)) expect(own, `${moment}: ${id} was completed`).toHaveLength(2);
        expect(own.at(-1)?.[0], `${moment}: the last of ${id}`).toBe("end");
        // The killed run does nothing once the next run has begun.
        const pids = own.map(([, , pid]) => pid);
        expect(pids, `${moment}: ${id} ran twice at a time`).toEqual(
          [...new Set(pids)].flatMap((pid) => pids.filter((other) => other === pid)),
        );
      }
      expect(await project.files(), moment).toEqual([]);
    },
  );
});
