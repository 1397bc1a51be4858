import type { PlainJson } from "../plain-json.js";
import { readShownState } from "../queries/checkpoint.js";
import type { QuerySession } from "../store.js";

/** Returns the items of a plan's run with their costs, for `waymark show`; none for other tasks. */
export function planRows(taskId: string, state: PlainJson | undefined): readonly string[] {
  if (!taskId.startsWith("plan/")) return [];
  return Object.entries(fieldsOf(fieldsOf(state)["items"])).map(([id, item]) => {
    const { title, status, calls, minutes } = fieldsOf(item);
    const cost = [
      `${calls} ${calls === 1 ? "call" : "calls"}`,
      ...costOf([item]),
      ...(Number(minutes) >= 0.1 ? [`${Number(minutes).toFixed(1)} min`] : []),
    ];
    return `${id} ${status}: ${title} (${cost.join(", ")})`;
  });
}

/** Adds the cost of each plan's run, for `waymark tasks`. */
export async function* withCosts<Task extends { readonly taskId: string; readonly count: number }>(
  session: QuerySession,
  tasks: AsyncIterable<Task>,
): AsyncGenerator<Task & { readonly cost?: string }, void, void> {
  for await (const task of tasks) {
    const isPlan = task.taskId.startsWith("plan/") && task.count > 0;
    // A state that can't be read is reported by `waymark show`.
    const shown = isPlan ? await readShownState(session, { task: task.taskId }).catch(() => undefined) : undefined;
    const cost = costOf(Object.values(fieldsOf(fieldsOf(shown?.state)["items"])));
    yield cost.length === 0 ? task : { ...task, cost: cost.join(", ") };
  }
}

/** `["$0.25", "100 tokens"]` */
function costOf(items: readonly PlainJson[]): readonly string[] {
  const sum = (name: string) => items.reduce((total: number, item) => total + Number(fieldsOf(item)[name] ?? 0), 0);
  const [usd, tokens] = [sum("costUsd"), sum("tokens")];
  return [
    ...(usd > 0 ? [`$${usd.toFixed(2)}`] : []),
    ...(tokens > 0 ? [`${tokens.toLocaleString("en-US")} tokens`] : []),
  ];
}

function fieldsOf(value: PlainJson | undefined): Readonly<Record<string, PlainJson>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}
