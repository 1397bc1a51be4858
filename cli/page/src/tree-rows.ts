import type { StatePath, Typed } from "../../src/ui/api-parts.js";
import { countItems, openNode, pathKey } from "./typed.js";

/** A line of a state's tree. */
export interface TreeRow {
  readonly path: StatePath;
  readonly key: Typed | undefined;
  readonly value: Typed;
  readonly depth: number;
  readonly isOpen: boolean;
  readonly hasChildren: boolean;
  readonly position: number;
  readonly siblings: number;
  /** The number of further children of the node at `path`, for which this line stands. */
  readonly more?: number;
}

/** The parts of a state that were sent. Parts that were sent later replace their first versions. */
export interface TreeSource {
  readonly state: Typed;
  readonly parts: ReadonlyMap<string, Typed>;
}

/** Returns the value at a path; `undefined` if the value wasn't sent yet. */
export function valueAt({ state, parts }: TreeSource, path: StatePath): Typed | undefined {
  let value: Typed | undefined = parts.get("") ?? state;
  for (let depth = 0; depth < path.length; depth += 1) {
    const position = path[depth];
    if (value === undefined || position === undefined) return undefined;
    const child: Typed | undefined = openNode(value)?.children[position]?.value;
    value = parts.get(pathKey(path.slice(0, depth + 1))) ?? child;
  }
  return value;
}

/** Returns the lines of the open part of a state. */
export function treeRows(source: TreeSource, open: ReadonlySet<string>): TreeRow[] {
  const rows: TreeRow[] = [];
  const add = (path: StatePath, key: Typed | undefined, sent: Typed, position: number, siblings: number) => {
    const name = pathKey(path);
    const value = source.parts.get(name) ?? sent;
    const hasChildren = (countItems(value)?.size ?? 0) > 0;
    const node = hasChildren && open.has(name) ? openNode(value) : undefined;
    rows.push({ path, key, value, depth: path.length, isOpen: node !== undefined, hasChildren, position, siblings });
    if (node === undefined) return;
    const count = node.children.length + (node.more > 0 ? 1 : 0);
    for (const [index, child] of node.children.entries()) {
      add([...path, index], child.key, child.value, index + 1, count);
    }
    if (node.more > 0) {
      rows.push({
        path,
        key: undefined,
        value: null,
        depth: path.length + 1,
        isOpen: false,
        hasChildren: false,
        position: count,
        siblings: count,
        more: node.more,
      });
    }
  };
  add([], undefined, source.state, 1, 1);
  return rows;
}

/** Returns the nodes to open at first: from the top, as long as the tree stays short enough to read at a glance. */
export function openAtFirst(state: Typed, mostRows = 40): Set<string> {
  const open = new Set<string>();
  let rows = 1;
  let level: { readonly path: StatePath; readonly value: Typed }[] = [{ path: [], value: state }];
  while (level.length > 0) {
    const next: typeof level = [];
    for (const { path, value } of level) {
      const node = openNode(value);
      if (node === undefined || node.children.length === 0) continue;
      if (path.length > 0 && rows + node.children.length > mostRows) continue;
      rows += node.children.length;
      open.add(pathKey(path));
      for (const [index, child] of node.children.entries()) next.push({ path: [...path, index], value: child.value });
    }
    level = next;
  }
  return open;
}
