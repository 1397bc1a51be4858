import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import ts from "typescript";
import { expect, it } from "vitest";

/** From the ground up: each storey imports from those before it, and from itself. */
const STOREYS = [
  /^src\/contract\//,
  /^src\/codec\//,
  /^src\/manager\//,
  /^src\/runs\//,
  /^src\/checkpoint-manager\.ts$/,
  /^src\/(index|adapter)\.ts$/,
];
/** The rooms beside the storeys of src: adapters know the contract alone, and the suite what an adapter's author does. */
const BESIDE = [
  { rooms: /^adapters\//, may: /^(adapters|src\/contract)\// },
  { rooms: /^conformance\//, may: /^(conformance|src\/(contract|codec))\// },
];

const imports = new Map(
  [...filesIn("src"), ...filesIn("adapters"), ...filesIn("conformance")].map(
    (file) => [file, importsIn(file, readFileSync(file, "utf8"))] as const,
  ),
);

it("each storey of src imports only from those below it", () => {
  const storeyOf = (file: string) => STOREYS.findIndex((storey) => storey.test(file));
  const up = arrows().filter(
    ([from, to]) => storeyOf(from) >= 0 && (storeyOf(to) < 0 || storeyOf(to) > storeyOf(from)),
  );
  expect(up).toEqual([]);
});

it("adapters import the contract alone, and the suite what an adapter's author has", () => {
  const out = arrows().filter(([from, to]) => BESIDE.some(({ rooms, may }) => rooms.test(from) && !may.test(to)));
  expect(out).toEqual([]);
});

/** Where the world may be asked: the port, and nonces of encryption, which nothing may foresee. */
const WORLD = /^src\/(contract\/runtime|codec\/envelope)\.ts$/;

it("time, timers and chance reach src through the port alone", () => {
  const files = filesIn("src").filter((file) => !WORLD.test(file));
  expect(files.flatMap((file) => findWorld(file, readFileSync(file, "utf8")))).toEqual([]);
});

it.each([
  'import { setTimeout as pause } from "node:timers/promises";',
  'import { performance } from "node:perf_hooks";',
  'import { randomUUID } from "node:crypto";',
  "const nowMs = Date.now();",
  "const now = new Date();",
  "globalThis.setTimeout(call, 1);",
  "const clock = options.clock ?? Date.now;",
  "setInterval(() => tick(), 5);",
  "process.hrtime.bigint();",
  "AbortSignal.timeout(5);",
])("the check finds %s", (text) => expect(findWorld("src/runs/a.ts", text)).toHaveLength(1));

it.each(["new Date(0);", "// setTimeout(call, 5)", "runtime.setTimeout(call, 5);", 'const text = "Date.now()";'])(
  "the check passes %s",
  (text) => expect(findWorld("src/runs/a.ts", text)).toEqual([]),
);

function arrows(): readonly (readonly [from: string, to: string])[] {
  return [...imports].flatMap(([file, its]) => its.map((to) => [file, to] as const));
}

function filesIn(folder: string): readonly string[] {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return names.filter((name) => name.endsWith(".ts")).map((name) => `${folder}/${name}`);
}

it.each([
  'import "../b.js";',
  "import type { B } from '../b.js';",
  'export { b } from "../b.js";',
  "import('../b.js')",
])("the checks read %s", (text) => expect(importsIn("src/codec/a.ts", text)).toEqual(["src/b.ts"]));

/** The places of a file that ask the world for the time, a timer or a random number. */
function findWorld(file: string, text: string): readonly string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (isWorld(node)) found.push(`${file}: ${node.getText()}`);
    else ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  return found;
}

const GLOBALS = /^(set|clear)(Timeout|Interval|Immediate)$|^performance$/;
const MEMBERS = /^(Date\.now|Math\.random|AbortSignal\.timeout|process\.hrtime|crypto\.random\w+)$/;

function isWorld(node: ts.Node): boolean {
  if (ts.isImportSpecifier(node)) return /^random(UUID|Bytes|Int)$/.test((node.propertyName ?? node.name).text);
  if (ts.isImportDeclaration(node))
    return /^"(node:)?(timers(\/promises)?|perf_hooks)"$/.test(node.moduleSpecifier.getText());
  if (ts.isNewExpression(node)) return node.expression.getText() === "Date" && !node.arguments?.length;
  if (ts.isPropertyAccessExpression(node)) {
    const isGlobal = node.expression.getText() === "globalThis" && GLOBALS.test(node.name.text);
    return isGlobal || MEMBERS.test(node.getText());
  }
  // A call of a global function, or the function itself. A member with such a name belongs to an object.
  return ts.isIdentifier(node) && GLOBALS.test(node.text) && isValue(node);
}

function isValue(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent)) return parent.expression === node;
  return ts.isExpression(parent) || ts.isVariableDeclaration(parent);
}

/** Also type imports and dynamic ones. */
function importsIn(file: string, text: string): readonly string[] {
  const relative = ts.preProcessFile(text).importedFiles.filter(({ fileName }) => fileName.startsWith("."));
  return relative.map(({ fileName }) => join(dirname(file), fileName).replace(/\.js$/, ".ts"));
}
