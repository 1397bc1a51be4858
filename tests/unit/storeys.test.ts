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

/** Also type imports and dynamic ones. */
function importsIn(file: string, text: string): readonly string[] {
  const relative = ts.preProcessFile(text).importedFiles.filter(({ fileName }) => fileName.startsWith("."));
  return relative.map(({ fileName }) => join(dirname(file), fileName).replace(/\.js$/, ".ts"));
}
