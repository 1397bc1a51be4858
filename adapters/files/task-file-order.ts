import type { DamagedEntry, Entry } from "./task-file-format.js";
import type { ForeignEntry, RecordEntry } from "./task-file-record.js";

type AnyEntry = Entry | ForeignEntry;

/**
 * Tells the lines that stand where they can't have been written: each save puts its line behind those before it, with a
 * higher sequence. A line that was copied or moved over another passes its own checks, and nothing else tells that the other
 * is gone. The largest part of the lines that ascends is taken for right; the others become damaged entries.
 *
 * @param lineNumbers - Of the entries, where they have lines.
 */
export function withMisplaced(entries: readonly AnyEntry[], lineNumbers?: readonly number[]): readonly AnyEntry[] {
  if (ascends(entries)) return entries;
  const kept = longestAscending(entries);
  const keptIds = new Set([...kept].map((entry) => entry.head.id));
  return entries.map((entry, index) =>
    isSequenced(entry) && !kept.has(entry) ? misplaced(entry, lineNumbers?.[index], keptIds) : entry,
  );
}

/** The same in the order of their sequences, as another program may not have left them. Damaged ones stay where they are. */
export function inOrder<Item extends AnyEntry>(entries: readonly Item[]): readonly Item[] {
  if (ascends(entries)) return entries;
  const ordered = entries.filter(isSequenced).sort((a, b) => a.head.sequence - b.head.sequence);
  let next = 0;
  return entries.map((entry) => (isSequenced(entry) ? (ordered[next++] ?? entry) : entry));
}

function isSequenced<Item extends AnyEntry>(entry: Item): entry is Item & RecordEntry {
  return "head" in entry;
}

function ascends(entries: readonly AnyEntry[]): boolean {
  let before = 0;
  for (const entry of entries) {
    if (!isSequenced(entry)) continue;
    if (entry.head.sequence <= before) return false;
    before = entry.head.sequence;
  }
  return true;
}

function misplaced(
  { head: { id, sequence }, line }: RecordEntry,
  lineNumber: number | undefined,
  keptIds: ReadonlySet<string>,
): DamagedEntry {
  const isCopy = keptIds.has(id);
  const known = isCopy ? {} : { id, sequence };
  const why = isCopy ? "which another line holds too" : "which doesn't belong there";
  return {
    reason: `it holds checkpoint ${id} (sequence ${sequence}), ${why}: it was copied or moved`,
    line,
    lineNumber,
    ...known,
  };
}

/** A chain of entries that ascends, from its last one. */
interface Chain {
  readonly entry: RecordEntry;
  readonly before: Chain | undefined;
}

/** The longest part of the entries whose sequences ascend. */
function longestAscending(entries: readonly AnyEntry[]): ReadonlySet<RecordEntry> {
  /** For each length the chain of it whose last sequence is lowest. */
  const chains: Chain[] = [];
  for (const entry of entries) {
    if (!isSequenced(entry)) continue;
    const length = firstFrom(chains, entry.head.sequence);
    chains[length] = { entry, before: chains[length - 1] };
  }
  const longest = new Set<RecordEntry>();
  for (let chain = chains.at(-1); chain; chain = chain.before) longest.add(chain.entry);
  return longest;
}

/** How many of the chains end below the sequence. */
function firstFrom(chains: readonly Chain[], sequence: number): number {
  let [low, high] = [0, chains.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((chains[middle]?.entry.head.sequence ?? 0) < sequence) low = middle + 1;
    else high = middle;
  }
  return low;
}
