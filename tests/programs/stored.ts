// Compares the end of a task with the store.
import type { CheckpointManager } from "waymark";
import { isTransient } from "waymark/adapter";
import { checkHistory, parseHistory } from "waymark/testing";
import { chunkViolations } from "./followed.js";
import type { Seen } from "./seen.js";

/** Returns descriptions of the violations. Notes the statuses of the events. */
export async function storedViolations(
  manager: CheckpointManager,
  task: string,
  result: unknown,
  seen: Seen[],
): Promise<readonly string[]> {
  const violations: string[] = [];
  const returned = seen.filter((line) => line.is === "returned" && line.task === task);
  const results = returned.map((line) => JSON.stringify("result" in line && line.result));
  if (!results.includes(JSON.stringify(result))) violations.push(`${task} has a result that no life returned`);
  const stored = await manager.result(task);
  if (JSON.stringify(stored) !== JSON.stringify(result)) violations.push(`${task} has another result stored`);
  for (const { id, status } of await manager.events(task)) seen.push({ is: "event", task, id, status });
  const states = new Set(seen.flatMap((line) => ("state" in line ? JSON.stringify(line.state) : [])));
  const saved = new Set(
    seen.flatMap((line) => (line.is === "got" && line.task === task && line.kind === "save" ? line.value : [])),
  );
  for await (const checkpoint of manager.history(task, { order: "oldest" })) {
    const { id, state, status, stage } = checkpoint;
    saved.delete(id);
    if (isTransient(checkpoint) || status !== "running" || stage === undefined || state === undefined) continue;
    if (!states.has(JSON.stringify(state))) violations.push(`${task} has a milestone that no life saved`);
  }
  // A fork gets its origin's answers but not its milestones.
  if (saved.size > 0 && !task.includes("fork")) violations.push(`${task} lacks ${saved.size} milestones`);
  return [...violations, ...(await chunkViolations(manager, task, seen))];
}

/** Returns descriptions of the violations in the storage calls. */
export function historyViolations(lines: readonly string[]): readonly string[] {
  const history = parseHistory(lines);
  const violations = checkHistory(history).map(({ rule, message }) => `${rule}: ${message}`);
  const hasClaims = history.some(({ action }) => action.is === "claim" && action.token !== undefined);
  return hasClaims ? violations : [...violations, "The history lacks the claims"];
}
