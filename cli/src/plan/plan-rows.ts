import type { PlainJson } from "../plain-json.js";
import { readShownState } from "../queries/checkpoint.js";
import type { QuerySession } from "../store.js";
import { sumUsage, type Usage, usageIn, usageText } from "../usage.js";

/** Returns the items of a plan's run with their costs, for `waymark show`; none for other tasks. */
export function planRows(taskId: string, state: PlainJson | undefined): readonly string[] {
  if (!taskId.startsWith("plan/")) return [];
  return Object.entries(fieldsOf(fieldsOf(state)["items"])).map(([id, item]) => {
    const { title, status, calls, minutes } = fieldsOf(item);
    const usage = usageIn(item);
    const cost = [
      `${calls} ${calls === 1 ? "call" : "calls"}`,
      ...(usage && usageText(usage) !== "" ? [usageText(usage)] : []),
      ...(Number(minutes) >= 0.1 ? [`${Number(minutes).toFixed(1)} min`] : []),
    ];
    return `${id} ${status}: ${title} (${cost.join(", ")})`;
  });
}

/** Adds what each plan's run has used, for `waymark tasks`. */
export async function* withUsage<Task extends { readonly taskId: string; readonly count: number }>(
  session: QuerySession,
  tasks: AsyncIterable<Task>,
): AsyncGenerator<Task & { readonly usage?: Usage }, void, void> {
  for await (const task of tasks) {
    const isPlan = task.taskId.startsWith("plan/") && task.count > 0;
    // A state that can't be read is reported by `waymark show`.
    const shown = isPlan ? await readShownState(session, { task: task.taskId }).catch(() => undefined) : undefined;
    const usage = sumUsage(Object.values(fieldsOf(fieldsOf(shown?.state)["items"])).map(usageIn));
    yield usage === undefined ? task : { ...task, usage };
  }
}

function fieldsOf(value: PlainJson | undefined): Readonly<Record<string, PlainJson>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}
