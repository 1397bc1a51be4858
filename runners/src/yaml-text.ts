import { CST, isScalar, LineCounter, Parser, parseDocument, visit } from "yaml";

/** Up to this size, the library parses every text in a few seconds, even one full of errors. */
const MAX_YAML_LENGTH = 128 * 1024;
/** The library composes a text recursively. If that exhausts the stack, Node may end the process. */
const MAX_DEPTH = 64;

/**
 * Parses one YAML document.
 *
 * @param schema - `failsafe` reads every value as text.
 * @throws {Error} The text is too long, too deeply nested, or not YAML. The message has the line and the column.
 */
export function parseYaml(text: string, schema: "core" | "failsafe" = "core"): unknown {
  if (text.length > MAX_YAML_LENGTH) {
    throw new Error(`${text.length} characters of YAML are more than the limit of ${MAX_YAML_LENGTH}`);
  }
  const lines = new LineCounter();
  const placed = (error: Error, offset: number): Error => {
    const { line, col } = lines.linePos(offset);
    error.message += ` at line ${line}, column ${col}`;
    return error;
  };
  for (const token of new Parser(lines.addNewLine).parse(text)) {
    const refused = token.type === "document" ? refusedIn(token.value) : undefined;
    if (refused !== undefined) throw placed(new Error(refused.reason), refused.token.offset);
  }
  // By default, the library compares each key with all others, and searches the text for the line of each error.
  const document = parseDocument(text, { schema, logLevel: "error", uniqueKeys: false, prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) throw placed(error, error.pos[0]);
  visit(document, {
    Map(_key, { items }) {
      const keys = new Set<unknown>();
      for (const { key } of items) {
        if (!isScalar(key)) continue;
        if (keys.has(key.value)) throw placed(new Error("Map keys must be unique"), key.range?.[0] ?? 0);
        keys.add(key.value);
      }
    },
  });
  return document.toJS();
}

/**
 * Returns the first list or map that is nested too deeply, or that is a key. To turn such a key into text, the library
 * needs time that grows with the cube of the key's depth.
 */
function refusedIn(value: CST.Token | undefined): { readonly token: CST.Token; readonly reason: string } | undefined {
  const open = [{ token: value, depth: 1 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { token, depth } = next;
    if (!CST.isCollection(token)) continue;
    if (depth > MAX_DEPTH) return { token, reason: `Lists and maps are nested more than ${MAX_DEPTH} deep` };
    for (const { key, value } of token.items) {
      if (CST.isCollection(key)) return { token: key, reason: "A key must be text" };
      open.push({ token: value, depth: depth + 1 });
    }
  }
  return undefined;
}
