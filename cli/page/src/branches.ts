import type { CheckpointRow } from "../../src/ui/api-parts.js";

/** How a checkpoint's row is drawn in a history with branches. */
export interface BranchRow {
  /** The column of the checkpoint's dot, from 0. */
  readonly column: number;
  /** Columns of other branches, whose lines pass this row. */
  readonly past: readonly number[];
  /** Columns of branches that begin at this checkpoint: their lines join its dot from above. */
  readonly joins: readonly number[];
  /** A later checkpoint continues this one. */
  readonly hasChild: boolean;
  /** The checkpoint continues one that is listed below it. */
  readonly hasParent: boolean;
}

type Listed = Pick<CheckpointRow, "id" | "parentId">;

/**
 * Lays out checkpoints in columns, like the graph of a git history.
 *
 * @param checkpoints - Newest first. A checkpoint without `parentId` continues the next older one.
 */
export function branchRows(checkpoints: readonly Listed[]): BranchRow[] {
  const listed = new Set(checkpoints.map(({ id }) => id));
  /** The checkpoint that each column's line leads to. */
  const columns: (string | undefined)[] = [];
  return checkpoints.map(({ id, parentId }, index) => {
    const waiting = columns.flatMap((target, column) => (target === id ? [column] : []));
    const [column = free(columns), ...joins] = waiting;
    for (const join of joins) columns[join] = undefined;
    const parent = parentId ?? checkpoints[index + 1]?.id;
    const hasParent = parent !== undefined && listed.has(parent);
    columns[column] = hasParent ? parent : undefined;
    const past = columns.flatMap((target, other) => (target !== undefined && other !== column ? [other] : []));
    return { column, past, joins, hasChild: waiting.length > 0, hasParent };
  });
}

function free(columns: readonly (string | undefined)[]): number {
  const gap = columns.indexOf(undefined);
  return gap === -1 ? columns.length : gap;
}
