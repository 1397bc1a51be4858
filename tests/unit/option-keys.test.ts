// If a new option is missing from a hand-written list of keys, it is refused at run time. listKeys makes the
// omission a compile error.
import { readFileSync } from "node:fs";
import ts from "typescript";
import { expect, it } from "vitest";
import { listSourceFiles } from "../support/source-files.js";

const FOLDERS = [
  "src",
  "adapters",
  "config",
  "systems",
  "telemetry",
  "testing",
  "runners/src",
  "cli/src",
  "cli/page/src",
  "examples",
];

/** The file of `listKeys` itself. */
const OWN = "src/contract/arguments.ts";

it("every list of a type's keys is made by listKeys", () => {
  const files = FOLDERS.flatMap((folder) => listSourceFiles(folder)).filter((file) => file !== OWN);
  expect(files.length).toBeGreaterThan(200);
  expect(files.flatMap((file) => handWritten(file, readFileSync(file, "utf8")))).toEqual([]);
});

it.each([
  'const keys = ["a"] satisfies (keyof Options)[];',
  "const keys = ['a'] as const satisfies readonly (keyof Options)[];",
  "const keys = Object.keys(x) as Array<keyof Options>;",
  "const keys: ReadonlyArray<keyof Options> = [...more];",
  'checkKeys("Options", options, ["a"]);',
  "checkKeys('Options', options, [...KEYS, 'a'] as string[]);",
])("the check finds a list that is made otherwise: %s", (text) => {
  expect(handWritten("a.ts", text)).toHaveLength(1);
});

it.each(['checkKeys("Options", options, KEYS);', "function f(keys: readonly (keyof Options)[]): void {}"])(
  "the check passes %s",
  (text) => expect(handWritten("a.ts", text)).toEqual([]),
);

/** Finds expressions declared as a list of keys, and literal lists passed to `checkKeys`. */
function handWritten(file: string, text: string): string[] {
  // Most files have neither, and parsing takes long.
  if (!/keyof|checkKeys/.test(text)) return [];
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (isKeyList(node) || isLiteralCheck(node)) found.push(`${file}: ${node.getText()}`);
    else ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function isKeyList(node: ts.Node): boolean {
  const isDeclared = ts.isSatisfiesExpression(node) || ts.isAsExpression(node) || ts.isVariableDeclaration(node);
  return isDeclared && /\(\s*keyof\b.*\)\s*\[\]|Array<\s*keyof\b/s.test(node.type?.getText() ?? "");
}

function isLiteralCheck(node: ts.Node): boolean {
  if (!ts.isCallExpression(node) || node.expression.getText() !== "checkKeys") return false;
  const keys = node.arguments[2];
  return keys !== undefined && ts.isArrayLiteralExpression(ts.isAsExpression(keys) ? keys.expression : keys);
}
