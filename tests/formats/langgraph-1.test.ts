import { cp } from "node:fs/promises";
import { join } from "node:path";
import { Command } from "@langchain/langgraph";
import { expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { WaymarkSaver } from "waymark/langgraph";
import { collect } from "../support/postgres.js";
import { tempFolder } from "../support/temp-folder.js";
import { graphOn, THREAD, VALUES } from "./langgraph-thread.js";

it("a thread from before values had tags is intact, and can be continued", async () => {
  const folder = join(await tempFolder(), "threads");
  await cp(join(import.meta.dirname, "../fixtures/formats/langgraph-1"), folder, { recursive: true });
  const storage = openStorage(`files:${folder}`);
  expect((await new CheckpointManager({ storage }).verify()).findings).toEqual([]);
  await using saver = new WaymarkSaver({ storage });
  const graph = graphOn(saver);

  expect(await graph.getState(THREAD)).toMatchObject({ next: ["person"], values: VALUES });
  const [waiting, , started] = await collect(graph.getStateHistory(THREAD));
  expect(waiting?.tasks[0]?.interrupts).toMatchObject([{ value: { question: "go on?", options: ["yes", "no"] } }]);
  expect(started?.values).toMatchObject({ delta: ["input"] });

  const result = await graph.invoke(new Command({ resume: "yes" }), THREAD);
  for (const values of [result, (await graph.getState(THREAD)).values]) {
    expect(values).toMatchObject({ ...VALUES, delta: ["input", "model", "a", "b"], done: ["a", "b", "yes"] });
    expect(values.absent).toHaveProperty("nothing", undefined);
    const messages = values.messages as (typeof result)["messages"];
    expect(messages.map((message) => [message.type, message.content])).toEqual([
      ["human", "Where is it?"],
      ["ai", "I look it up."],
      ["tool", "Found."],
    ]);
    expect(messages[1]).toMatchObject({ tool_calls: [{ name: "find", args: { q: 1 }, id: "c1" }] });
    expect(messages[2]).toMatchObject({ artifact: { rows: [1, 2] } });
  }
});
