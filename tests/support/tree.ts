import { createHash } from "node:crypto";
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";

/**
 * Describes everything below a folder by path: its kind, permissions, inode, time of the last write, and content. Two
 * descriptions are equal if nothing was touched in between.
 *
 * @param except - A path below the folder that is skipped.
 */
export function treeOf(folder: string, except?: string): Record<string, string> {
  const tree: Record<string, string> = {};
  const visit = (path: string): void => {
    const stats = lstatSync(path, { bigint: true });
    const content = stats.isSymbolicLink()
      ? readlinkSync(path)
      : stats.isFile()
        ? createHash("sha256").update(readFileSync(path)).digest("hex")
        : "";
    tree[path] = [stats.ino, stats.mode, stats.size, stats.mtimeNs, content].join(" ");
    if (stats.isDirectory())
      for (const name of readdirSync(path)) if (join(path, name) !== except) visit(join(path, name));
  };
  visit(folder);
  return tree;
}
