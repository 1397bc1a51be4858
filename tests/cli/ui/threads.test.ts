// What the page's server answers about LangGraph threads.
import { describe, expect, it, onTestFinished } from "vitest";
import { taskName } from "../../../cli/page/src/task-name.js";
import { agentOn, saverOn, thread } from "../langgraph-agent.js";
import { askToBook } from "../langgraph-chat.js";
import { newPlace } from "../waymark.js";
import { served } from "./served.js";

const URL = "sqlite:agent.db";

async function placeWithThread() {
  const { cwd, manager } = await newPlace(URL);
  onTestFinished(() => manager.close());
  const saver = saverOn(cwd, URL);
  await askToBook(saver, "trip/3");
  return { saver, page: await served(URL, { cwd }), taskId: "langgraph/trip%2F3/c/" };
}

describe("a thread", () => {
  it("shows the nodes that ran and those that follow, in the list, the checkpoints and the timeline", async () => {
    const { page, taskId } = await placeWithThread();
    const { tasks } = await page.ask("tasks", { order: "recent", offset: 0, limit: 10 });
    expect(tasks).toMatchObject([{ name: "trip/3", status: "waiting", newest: { label: "step 3 · agent → book" } }]);
    const { checkpoints } = await page.ask("task", { taskId });
    const labels = [
      "step -1",
      "step 0 → agent",
      "step 1 · agent → tools",
      "step 2 · tools → agent",
      "step 3 · agent → book",
    ];
    expect(checkpoints.map(({ label }) => label).reverse()).toEqual(labels);
    const { marks } = await page.ask("timeline", { taskId });
    expect(marks.map(({ label }) => label)).toEqual(labels);
    expect(marks.map(({ kind }) => kind)).toEqual([...Array(4).fill("milestone"), "paused"]);
  });

  it("shows its messages with the calls of tools", async () => {
    const { page, taskId } = await placeWithThread();
    const { chat } = await page.ask("checkpoint", { taskId });
    const calls = [{ name: "search_trains", args: '{\n  "from": "Berlin",\n  "to": "Prague"\n}' }];
    expect(chat).toEqual({
      total: 4,
      messages: [
        { role: "human", text: "Find me a train to Prague", calls: [] },
        { role: "ai", text: "", calls },
        { role: "tool", name: "search_trains", text: '[{"train":"EC 173"}]', calls: [] },
        { role: "ai", text: "EC 173 fits.", calls: [] },
      ],
    });
  });

  it("shows the call that answers it, and the one that begins a branch at an older checkpoint", async () => {
    const { page, taskId } = await placeWithThread();
    const { commands, checkpoints } = await page.ask("task", { taskId });
    const [call] = commands.filter(({ action }) => action === "continue");
    expect(call?.text).toBe(
      'await graph.invoke(new Command({ resume: … }), { configurable: { thread_id: "trip/3" } })',
    );
    const id = checkpoints.at(-2)?.id ?? "";
    const older = await page.ask("checkpoint", { taskId, id });
    expect(older.commands).toContainEqual({
      action: "continue",
      text: `await graph.invoke(null, { configurable: { thread_id: "trip/3", checkpoint_id: "${id}" } })`,
      note: "The thread gets a branch",
    });
  });

  it("that failed shows the error, and how to continue", async () => {
    const { page, saver } = await placeWithThread();
    const agent = agentOn(saver);
    await agent.updateState(thread("t"), { log: ["approve: fail"] }, "think");
    await agent.updateState(thread("t"), { log: [] }, "look");
    await agent.updateState(thread("t"), { log: ["approve: fail"] }, "approve");
    await agent.updateState(thread("t"), { log: [] }, "mail");
    await expect(agent.invoke(null, thread("t"))).rejects.toThrow("out of order");
    const { task, failure, commands } = await page.ask("task", { taskId: "langgraph/t/c/" });
    expect([task.status, failure?.error]).toMatchObject([
      "failed",
      { name: "TypeError", message: "the tool is out of order" },
    ]);
    expect(commands).toContainEqual({
      action: "continue",
      text: 'await graph.invoke(null, { configurable: { thread_id: "t" } })',
    });
  });
});

it.each([
  ["langgraph/trip-3/c/", "trip-3"],
  ["langgraph/50%25%2Foff/c/mail:5f0c|tools:1", "50%/off · mail:5f0c|tools:1"],
  ["langgraph/%~hash/c/", "langgraph/%~hash/c/"],
  ["build/42", "build/42"],
])("the task %s is called %s", (taskId, name) => {
  expect(taskName(taskId)).toBe(name);
});
