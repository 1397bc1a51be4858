import { describeCause, isRecord } from "waymark/kit";
import { parseYaml } from "../yaml-text.js";
import { isId } from "./plan.js";

/** The front matter of a workstream's file. Nothing is inferred from the file's name or folder. */
export interface WorkstreamFile {
  /** The file's name in messages. */
  readonly name: string;
  /** The absolute path. */
  readonly path: string;
  /** The `ws_id`. */
  readonly id: string;
  readonly feature: string | undefined;
  /** The status; empty if the file has none. */
  readonly status: string;
  readonly dependsOn: readonly string[];
}

/** A file with a `ws_id` whose front matter can't be parsed. */
export interface UnreadableWorkstreamFile {
  readonly name: string;
  readonly reason: string;
  /** The front matter as it is in the file. */
  readonly text: string;
}

const FRONT_MATTER = /^---[ \t]*\r?\n(?:([\s\S]*?)\r?\n)?(?:---|\.\.\.)[ \t]*(?:\r?\n|$)/;

/**
 * Reads a workstream from a Markdown file. If the file has no front matter, or no `ws_id` in it, returns `undefined`.
 *
 * @param text - The file's text, without a byte order mark.
 */
export function parseWorkstreamFile(
  text: string,
  where: { readonly name: string; readonly path: string },
): WorkstreamFile | UnreadableWorkstreamFile | undefined {
  const matter = FRONT_MATTER.exec(text)?.[1];
  if (matter === undefined || !/^["']?ws_id\b/m.test(matter)) return undefined;
  const unreadable = (reason: string) => ({ name: where.name, reason, text: matter });
  let fields: unknown;
  try {
    // With this schema every value is text: 0010, null and 2026-01-30 stay unchanged.
    fields = parseYaml(matter, "failsafe");
  } catch (error) {
    return unreadable(`its front matter isn't YAML: ${describeCause(error).replaceAll("\n", " ")}`);
  }
  if (!isRecord(fields)) return unreadable("its front matter has no fields");
  const [id, status, feature] = [fields["ws_id"], fields["status"] ?? "", fields["feature"] ?? fields["feature_id"]];
  if (typeof id !== "string" || !isId(id.trim())) return unreadable("its ws_id is not one line of text");
  if (typeof status !== "string") return unreadable("its status is not text");
  if (feature !== undefined && typeof feature !== "string") return unreadable("its feature is not text");
  const dependsOn = readIds(fields["depends_on"]);
  if (dependsOn === undefined) return unreadable("its depends_on is neither an id nor a list of ids");
  return { ...where, id: id.trim(), status: status.trim(), feature: feature?.trim(), dependsOn };
}

/** The words that authors write for "nothing". */
const NONE = /^(?:|none|null|~|-|n\/a)$/i;

/** Returns the ids in a list, or in a text such as `00-001-01, 00-001-02`; `undefined` for anything else. */
function readIds(value: unknown): readonly string[] | undefined {
  const items: readonly unknown[] = Array.isArray(value) ? value : String(value ?? "").split(",");
  if (isRecord(value) || !items.every((item) => typeof item === "string")) return undefined;
  return items.map((item) => item.trim()).filter((item) => !NONE.test(item));
}
