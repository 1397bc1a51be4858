import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import ts from "typescript";
import { describe, expect, it } from "vitest";

const PACKAGES = [
  "adapters",
  "cli/page/src",
  "cli/src",
  "conformance",
  "config",
  "runners/src",
  "src",
  "systems",
  "telemetry",
  "testing",
];

describe("no files import each other in a circle, not even by types", () => {
  // One graph for all: the page imports types of the command.
  const imports = new Map(PACKAGES.flatMap(filesIn).map((file) => [file, importsIn(file, readFileSync(file, "utf8"))]));

  it.each(PACKAGES)("in %s", (folder) => {
    expect(findCycles(imports).filter(([first = ""]) => first.startsWith(`${folder}/`))).toEqual([]);
  });

  it("every imported file is part of the check", () => {
    const known = new Set(imports.keys());
    const others = [...imports.values()].flat().filter((file) => !known.has(file) && !/\.(json|css)$/.test(file));
    expect(others).toEqual([]);
  });
});

it.each([
  [{ a: ["b"], b: ["c"], c: [] }, []],
  [{ a: ["b"], b: ["a"] }, [["a", "b"]]],
  [{ a: ["b"], b: ["c", "d"], c: ["b"], d: [] }, [["b", "c"]]],
  [{ a: ["a"] }, [["a"]]],
  [
    { a: ["b"], b: ["a"], c: ["a", "d"], d: ["c"] },
    [
      ["a", "b"],
      ["c", "d"],
    ],
  ],
])("in %o, the circles are %j", (imports, cycles) => {
  expect(findCycles(new Map(Object.entries(imports)))).toEqual(cycles);
});

it.each([
  'import "../b.js";',
  "import type { B } from '../b.js';",
  'export { b } from "../b.js";',
  "import('../b.js')",
  'type B = import("../b.js").B;',
])("the check reads %s", (text) => expect(importsIn("src/codec/a.ts", text)).toEqual(["src/b.ts"]));

/** Returns the groups of files that reach each other, each sorted (Tarjan's strongly connected components). */
function findCycles(imports: ReadonlyMap<string, readonly string[]>): readonly (readonly string[])[] {
  const order = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  const visit = (file: string): number => {
    const number = order.size;
    order.set(file, number);
    let low = number;
    stack.push(file);
    for (const to of imports.get(file) ?? []) {
      if (!order.has(to)) low = Math.min(low, visit(to));
      else if (stack.includes(to)) low = Math.min(low, order.get(to) ?? low);
    }
    if (low === number) {
      const group = stack.splice(stack.indexOf(file)).toSorted();
      if (group.length > 1 || imports.get(file)?.includes(file)) cycles.push(group);
    }
    return low;
  };
  for (const file of [...imports.keys()].toSorted()) if (!order.has(file)) visit(file);
  return cycles;
}

function filesIn(folder: string): readonly string[] {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return names.filter((name) => /\.tsx?$/.test(name)).map((name) => `${folder}/${name}`);
}

/** Also type imports and dynamic ones. */
function importsIn(file: string, text: string): readonly string[] {
  const relative = ts.preProcessFile(text).importedFiles.filter(({ fileName }) => fileName.startsWith("."));
  return relative.map(({ fileName }) => {
    const path = join(dirname(file), fileName);
    const typescript = path.replace(/\.js$/, ".ts");
    return existsSync(`${typescript}x`) ? `${typescript}x` : typescript;
  });
}
