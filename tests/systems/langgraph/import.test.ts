// The example that moves the threads of another of LangGraph's savers.
import { Command } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import { expect, it, onTestFinished } from "vitest";
import { importThreads } from "../../../examples/langgraph-agent/src/import-threads.js";
import { agentOn, answers, fill, historyOf, saverOn, thread } from "../../cli/langgraph-agent.js";
import { tempFolder } from "../../support/temp-folder.js";

it.each(["files:ours", "sqlite:ours.db"])(
  "moves a SqliteSaver's threads to %s, where a graph continues",
  async (to) => {
    const cwd = await tempFolder();
    const database = new Database(":memory:");
    onTestFinished(() => void database.close());
    const theirs = new SqliteSaver(database);
    await fill(theirs);
    const ours = saverOn(cwd, to, { exclusive: false });
    const count = await importThreads(theirs, ours);
    expect(await importThreads(theirs, ours)).toBe(count);
    for (const id of ["waits", "done", "branched"]) {
      expect(await historyOf(ours, id)).toEqual(await historyOf(theirs, id));
    }
    const resume = await answers(ours, "waits");
    const [here, there] = [agentOn(ours), agentOn(theirs)].map((agent) =>
      agent.invoke(new Command({ resume }), thread("waits")),
    );
    expect((await here)?.log.at(-1)).toBe("sum");
    expect(await here).toEqual(await there);
  },
);
