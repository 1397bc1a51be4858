// Groups the notes by lives.
import type { Seen, SeenWhere } from "./seen.js";

export type Line = Extract<Seen, SeenWhere>;
/** A note about a change between lives. */
type Between = Extract<Seen, { readonly is: "dropped" | "stuck" | "branched" }>;

/** The notes of one life about one task. */
export interface Life {
  readonly lines: readonly Line[];
  readonly ended: "completed" | "failed" | "stopped" | undefined;
  /** Whether the next life had already begun, so that this life may not know what is recorded. */
  isLate(line: Line): boolean;
}

/** Returns the lives of each task and the changes between them, in their order. */
export function livesIn(seen: readonly Seen[]): readonly (Life | Between)[] {
  const numbers = new Map(seen.map((line, number) => [line, number]));
  const number = (line: Seen | undefined) => (line && numbers.get(line)) ?? Number.POSITIVE_INFINITY;
  const ends = new Map(seen.flatMap((line) => (line.is === "ended" ? [[lifeOf(line), line.how] as const] : [])));
  const lines = seen.filter(isLine);
  const lives = [...groupBy(lines, lifeOf).values()];
  const items = lives.map((own) => {
    const [first] = own;
    const next = lives.find(([other]) => other?.task === first?.task && number(other) > number(first))?.[0];
    const life = first && ends.get(lifeOf(first));
    const isLate = (line: Line) => number(line) > number(next);
    return { first, item: { lines: own, ended: life, isLate } };
  });
  const others = seen.flatMap((line) =>
    line.is === "dropped" || line.is === "stuck" || line.is === "branched" ? [{ first: line, item: line }] : [],
  );
  return [...items, ...others].sort((a, b) => number(a.first) - number(b.first)).map(({ item }) => item);
}

export function isLine(line: Seen): line is Line {
  return "life" in line && line.is !== "ended";
}

/** Returns the original task of a fork, or of a fork of a fork. */
export function originOf(task: string): string {
  return task.replaceAll(/-fork-\d+|fork-\d+-/g, "");
}

function lifeOf({ task, life }: Pick<SeenWhere, "task" | "life">): string {
  return `${task} ${life}`;
}

export function keyOf({ task, generation, at }: Pick<SeenWhere, "task" | "generation" | "at">): string {
  return `${task} ${generation} ${at}`;
}

export function groupBy<Item>(items: readonly Item[], key: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const group = groups.get(key(item)) ?? [];
    groups.set(key(item), group);
    group.push(item);
  }
  return groups;
}
