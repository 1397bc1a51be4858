// waymark langgraph import from a PostgresSaver's tables, and killed at any moment.
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Command } from "@langchain/langgraph";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import { expect, it, onTestFinished } from "vitest";
import { Moments, momentOf } from "../support/moments.js";
import { newSchema } from "../support/postgres.js";
import { tempFolder } from "../support/temp-folder.js";
import { agentOn, answers, fill, historyOf, saverOn, thread } from "./langgraph-agent.js";
import { recordsOf, start, waymark } from "./waymark.js";

it.each(["sqlite:ours.db", "postgres"])(
  "moves a PostgresSaver's threads to %s, where a graph continues them",
  async (kind) => {
    const cwd = await tempFolder();
    const { url, schema } = await newSchema();
    const theirs = PostgresSaver.fromConnString(url, { schema });
    onTestFinished(() => theirs.end());
    await theirs.setup();
    await fill(theirs);
    const other = await newSchema();
    const to = kind === "postgres" ? `${other.url}?schema=${other.schema}` : kind;
    const run = () => waymark({ cwd }, ["langgraph", "import", "--from", `${url}?schema=${schema}`, "--to", to]);
    const first = await run();
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(first.stdout).toMatch(
      /^Imported (\d+) checkpoints of 3 threads to \S+; 0 there already\.\n\1 of \1 identical\n$/,
    );
    expect(first.stdout).not.toContain(new URL(url).password);
    expect((await run()).stdout).toMatch(/^Imported 0 checkpoints .*\n(\d+) of \1 identical\n$/);

    const ours = saverOn(cwd, to);
    for (const id of ["waits", "done", "branched"])
      expect(await historyOf(ours, id)).toEqual(await historyOf(theirs, id));
    const ended = await agentOn(ours).invoke(new Command({ resume: await answers(ours, "waits") }), thread("waits"));
    expect(ended.log.at(-1)).toBe("sum");
  },
);

it("refuses to import to the schema that it reads", async () => {
  const { url, schema } = await newSchema();
  const place = `${url}?schema=${schema}`;
  const { code, stderr } = await waymark({ cwd: "." }, ["langgraph", "import", "--from", place, "--to", place]);
  expect([code, stderr]).toEqual([2, expect.stringContaining("can't be both")]);
});

it("says which schema has no tables of a PostgresSaver", async () => {
  const { url, schema } = await newSchema();
  const args = ["langgraph", "import", "--from", `${url}?schema=${schema}`, "--to", "files:ours"];
  const { code, stderr } = await waymark({ cwd: await tempFolder() }, args);
  expect([code, stderr]).toEqual([3, expect.stringContaining(`schema "${schema}", gives no threads`)]);
  expect(stderr).not.toContain(new URL(url).password);
});

it.each(["sqlite", "files"])(
  "killed at a random moment into %s, it completes when it runs again, and stores nothing twice",
  async (scheme) => {
    const cwd = await tempFolder();
    const database = new Database(join(cwd, "theirs.db"));
    onTestFinished(() => void database.close());
    const agent = agentOn(new SqliteSaver(database));
    const names = Array.from({ length: 8 }, (_, n) => `thread-${n}`);
    for (const name of names) await agent.invoke({ log: [name] }, thread(name));
    const args = (to: string) => ["langgraph", "import", "--from", "sqlite:theirs.db", "--to", to];
    const urlIn = (folder: string) => (scheme === "files" ? `files:${folder}` : `sqlite:${folder}/ours.db`);
    /** How many moments there were until it ended or was killed. */
    const runUntil = async (folder: string, moment: number) => {
      mkdirSync(join(cwd, folder));
      const child = start({ cwd }, args(urlIn(folder)), { stdio: "ignore" });
      const ended = once(child, "close");
      const moments = new Moments([join(cwd, folder)], (count) => {
        if (count === moment) child.kill("SIGKILL");
      });
      await ended;
      moments.close();
      return moments.count;
    };
    const contentOf = async (folder: string) =>
      (await recordsOf(cwd, urlIn(folder))).map(({ taskId, stage, status, payload }) => [
        taskId,
        stage,
        status,
        payload.body,
      ]);

    const count = await runUntil("whole", Number.POSITIVE_INFINITY);
    const whole = await contentOf("whole");
    let halfway = 0;
    for (let seed = 0; seed < 8; seed++) {
      const folder = `killed-${seed}`;
      await runUntil(folder, momentOf(seed, count));
      const there = (await contentOf(folder)).length;
      if (there > 0 && there < whole.length) halfway += 1;
      expect(await waymark({ cwd }, args(urlIn(folder))), `seed ${seed}`).toMatchObject({ code: 0, stderr: "" });
      expect(await contentOf(folder), `seed ${seed}`).toEqual(whole);
    }
    expect(halfway).toBeGreaterThan(4);
  },
);
