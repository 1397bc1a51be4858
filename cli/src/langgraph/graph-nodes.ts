import type { CheckpointSummary } from "waymark";
import { isRecord } from "waymark/kit";
import { type CheckpointState, listHolders, nextNodes, readableValue } from "waymark/langgraph/records";

/**
 * Returns the nodes that ran in the step of a thread's checkpoint, and the nodes that run next: ` · agent → tools`. Nodes
 * that a Send called are missing among those that ran.
 */
export function nodesText(checkpoint: CheckpointSummary, state: CheckpointState): string {
  const ran = ranNodes(state.checkpoint);
  const next = checkpoint.status === "completed" ? [] : findNext(checkpoint, state);
  return `${ran.length > 0 ? ` · ${ran.join(", ")}` : ""}${next.length > 0 ? ` → ${next.join(", ")}` : ""}`;
}

/** Each step increases the highest version of the channels by one. A node that ran has seen the version before. */
function ranNodes(checkpoint: unknown): string[] {
  const { channel_versions: versions, versions_seen: seen } = isRecord(checkpoint) ? checkpoint : {};
  if (!isRecord(versions) || !isRecord(seen)) return [];
  const newest = Math.max(...Object.values(versions).map(numberOf));
  return Object.entries(seen).flatMap(([node, byChannel]) => {
    const hasRun = isRecord(byChannel) && Object.values(byChannel).some((version) => numberOf(version) === newest - 1);
    return hasRun && !node.startsWith("__") ? [node] : [];
  });
}

/** Versions are numbers, or texts that begin with a number, such as `00000002.0.51`. */
function numberOf(version: unknown): number {
  return Number.parseInt(String(version), 10);
}

function findNext(checkpoint: CheckpointSummary, state: CheckpointState): string[] {
  const own = nextNodes(
    Object.fromEntries(Object.entries(state.values).map(([name, value]) => [name, readableValue(value)])),
  );
  // After an update, the channels that call nodes may still be those of the checkpoint before.
  const nodes = own.length > 0 ? own : nextNodes(Object.fromEntries(listHolders(checkpoint, state)));
  return [...new Set(nodes)].filter((node) => node !== "__start__");
}
