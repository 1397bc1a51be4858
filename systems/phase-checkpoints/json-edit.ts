import { applyEdits, type Edit, findNodeAtLocation, type Node, parseTree } from "jsonc-parser";
import { isJsonObject, parseObject } from "../../adapters/files/sealed-record.js";
import { UnreadableError } from "../../adapters/files/stored-file.js";
import type { JsonValue } from "../../src/contract/checkpoint.js";

/**
 * The text of a JSON object with one value set, or removed where it is `undefined`. All else stays as it is written:
 * the order of keys, numbers that JavaScript can't hold, indentation.
 *
 * @throws {UnreadableError} It is no JSON object, or something else than an object stands on the way to the value.
 */
export function withJsonValue(text: string, path: readonly string[], value: JsonValue | undefined): string {
  const before = valueAt(text, path);
  if (before === value) return text;
  const edited = applyEdits(text, editsFor(text, path, value));
  if (valueAt(edited, path) !== value) throw new UnreadableError(`it has ${path.join(".")} twice`);
  return edited;
}

/**
 * The value under a path of keys; `undefined` where there is none.
 *
 * @throws {UnreadableError} As {@link withJsonValue}.
 */
export function valueAt(text: string, path: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = parseObject(text);
  for (const [depth, key] of path.entries()) {
    if (value === undefined) return undefined;
    if (!isJsonObject(value)) throw new UnreadableError(`its ${path.slice(0, depth).join(".")} is no object`);
    value = Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return value;
}

/** jsonc-parser's own `modify` would write the neighbours in its own style too. */
function editsFor(text: string, path: readonly string[], value: JsonValue | undefined): Edit[] {
  const root = parseTree(text);
  for (let depth = path.length; depth >= 0; depth--) {
    const node = root && findNodeAtLocation(root, path.slice(0, depth));
    if (node === undefined) continue;
    if (depth < path.length) return [insertion(text, node, path.slice(depth), value)];
    if (value === undefined) return node.parent ? [removal(node.parent)] : [];
    return [{ offset: node.offset, length: node.length, content: JSON.stringify(value) }];
  }
  return [];
}

/** A new last member, set off as the one before it is. */
function insertion(text: string, object: Node, path: readonly string[], value: JsonValue | undefined): Edit {
  const last = object.children?.at(-1);
  const colon = text.includes('": ') ? ": " : ":";
  const member = path.reduceRight<string>((inner, key, index) => {
    const whole = `${JSON.stringify(key)}${colon}${inner}`;
    return index === 0 ? whole : `{ ${whole} }`;
  }, JSON.stringify(value));
  if (last === undefined) return { offset: object.offset + 1, length: 0, content: ` ${member} ` };
  const gap = /\s*$/.exec(text.slice(0, last.offset))?.[0] ?? "";
  return { offset: last.offset + last.length, length: 0, content: `,${gap}${member}` };
}

/** Takes the comma along, and the white space on that side. */
function removal(property: Node): Edit {
  const siblings = property.parent?.children ?? [];
  const index = siblings.indexOf(property);
  const [before, after] = [siblings[index - 1], siblings[index + 1]];
  const start = before ? before.offset + before.length : property.offset;
  const end = before || !after ? property.offset + property.length : after.offset;
  return { offset: start, length: end - start, content: "" };
}
