import type { PlainJson } from "../plain-json.js";

/** The items of a plan's run with what each has cost, for `waymark show`; none for other tasks. */
export function planRows(taskId: string, state: PlainJson | undefined): readonly string[] {
  if (!taskId.startsWith("plan/")) return [];
  return Object.entries(fieldsOf(fieldsOf(state)["items"])).map(([id, item]) => {
    const { title, status, calls, costUsd, tokens, minutes } = fieldsOf(item);
    const cost = [
      `${calls} ${calls === 1 ? "call" : "calls"}`,
      ...(Number(costUsd) > 0 ? [`$${Number(costUsd).toFixed(2)}`] : []),
      ...(Number(tokens) > 0 ? [`${Number(tokens).toLocaleString("en-US")} tokens`] : []),
      ...(Number(minutes) >= 0.1 ? [`${Number(minutes).toFixed(1)} min`] : []),
    ];
    return `${id} ${status}: ${title} (${cost.join(", ")})`;
  });
}

function fieldsOf(value: PlainJson | undefined): Readonly<Record<string, PlainJson>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}
