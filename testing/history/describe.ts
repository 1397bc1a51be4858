import type { HistoryAction, HistoryCall, SeenItem } from "./calls.js";
import { type ActionOf, firstOf, type Timed, type Write } from "./written.js";

/** Describes a call in one line: `12.3–14.1 ms, worker 2: append step "plan" → sequence 7`. */
export function describeCall({ process, beginMs, endMs, action, error }: HistoryCall): string {
  const time = `${beginMs.toFixed(1)}–${endMs === undefined ? "" : endMs.toFixed(1)} ms`;
  const answer = error ?? (endMs === undefined ? "no answer" : describeAnswer(action));
  return `${time}, ${process}: ${describeAction(action)} → ${answer}`;
}

/** Describes an item, such as `step "plan" at sequence 7`. */
export function describeItem({ kind, name, id, sequence }: SeenItem): string {
  const title = name ?? id;
  return `${kind}${title === undefined ? "" : ` ${JSON.stringify(title)}`} at sequence ${sequence}`;
}

/** Describes why one moment came before another, such as `The read returned sequence 2`. */
export function describeOrder(one: Timed | Write | undefined, other: Timed | Write): string {
  if (one === undefined) return "";
  if ("items" in other) {
    if ("items" in one) return `Sequence ${firstOf(other)} follows sequence ${firstOf(one)}`;
    if (one.action.is === "read") return `The read lacks sequence ${firstOf(other)}`;
    return `Sequence ${firstOf(other)} was stored under token ${other.token}`;
  }
  const { action } = other;
  if (action.is === "read") return `The read returned sequence ${Math.max(...sequencesOf(action))}`;
  const token = "token" in action ? action.token : undefined;
  if ("items" in one) return `Sequence ${firstOf(one)} was stored under token ${one.token}, before token ${token}`;
  return action.is === "renew" ? `Token ${token} was renewed` : `Token ${token} is a later one`;
}

function sequencesOf({ items = [] }: ActionOf<"read">): readonly number[] {
  return items.map(({ sequence }) => sequence);
}

function describeAction(action: HistoryAction): string {
  switch (action.is) {
    case "append":
      return `append ${listItems(action.items)}${describeCondition(action.condition)}`;
    case "setStatus":
      return `setStatus of ${JSON.stringify(action.id)}${describeCondition(action.condition)}`;
    case "read":
      return `read ${JSON.stringify(action.id ?? action.query)}`;
    case "replace":
      return `replace ${action.changes.length === 1 ? "a payload" : `${action.changes.length} payloads`}`;
    case "remove":
      return `remove ${JSON.stringify(action.what)}`;
    case "claim":
      return `${action.isForced ? "claim by force" : "claim"} for ${action.ttlMs} ms`;
    case "renew":
      return `renew token ${action.token} for ${action.ttlMs} ms`;
    case "release":
      return `release token ${action.token}`;
    case "crash":
      return "crash";
  }
}

function describeAnswer(action: HistoryAction): string {
  switch (action.is) {
    case "append":
      return action.sequence === undefined ? "done" : `sequence ${action.sequence}`;
    case "setStatus":
      return action.isChanged ? "changed" : "no such checkpoint";
    case "read": {
      const sequences = sequencesOf(action);
      return sequences.length > 10
        ? `${sequences.length} items, from sequence ${sequences[0]} to ${sequences.at(-1)}`
        : `sequences ${sequences.join(", ") || "none"}`;
    }
    case "replace":
      return "done";
    case "remove":
      return `${action.count ?? 0} removed`;
    case "claim":
      return action.token === undefined ? "refused" : `token ${action.token}`;
    case "renew":
      return action.isRenewed ? "renewed" : "refused";
    case "release":
      return "released";
    case "crash":
      return "unsynced writes may be lost";
  }
}

function listItems(items: readonly Pick<SeenItem, "kind" | "name" | "id">[]): string {
  const titles = items.slice(0, 3).map(({ kind, name, id }) => [kind, JSON.stringify(name ?? id)].join(" ").trim());
  return titles.join(", ") + (items.length > 3 ? ` and ${items.length - 3} more` : "");
}

function describeCondition({
  expectedSequence,
  fencingToken,
}: {
  expectedSequence?: number | undefined;
  fencingToken?: number | undefined;
} = {}) {
  const parts = [
    ...(expectedSequence === undefined ? [] : [`if the newest checkpoint has sequence ${expectedSequence}`]),
    ...(fencingToken === undefined ? [] : [`under token ${fencingToken}`]),
  ];
  return parts.length === 0 ? "" : `, ${parts.join(", ")}`;
}
