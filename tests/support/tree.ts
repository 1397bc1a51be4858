import { createHash } from "node:crypto";
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";

/**
 * Everything below a folder, by path: what it is, its permissions, which file it is, when it was last written, and what
 * it holds. Two of these are equal if nothing there was touched.
 *
 * @param except - A path below the folder that isn't looked into.
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
