import { MAX_NESTING } from "../codec/tag-format.js";

/**
 * Whether a value that JSON.parse gave nests deeper than anything that is saved. JSON.parse itself knows no end, but
 * whoever walks through such a value, JSON.stringify too, comes to the end of the stack: so it is refused where it is
 * read.
 *
 * @param around - How many arrays and objects of a file's own there may be around what was saved.
 */
export function nestsTooDeep(value: unknown, around = 0): boolean {
  return isDeeper(value, MAX_NESTING + around);
}

function isDeeper(value: unknown, levels: number): boolean {
  if (!isContainer(value)) return false;
  if (levels === 0) return true;
  // Most of what is inside is no object: looking first spares most of the calls.
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === "object" && isDeeper(item, levels - 1)) return true;
    return false;
  }
  // Without a list of its values, which would take as long as all the rest.
  for (const key in value) {
    const item = value[key];
    if (typeof item === "object" && isDeeper(item, levels - 1)) return true;
  }
  return false;
}

function isContainer(value: unknown): value is { readonly [key: string]: unknown } {
  return typeof value === "object" && value !== null;
}
