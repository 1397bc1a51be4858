import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { listSourceFiles, resolveImports } from "../support/source-files.js";

const FOLDERS = [
  "adapters",
  "bench",
  "cli/page/src",
  "cli/src",
  "conformance",
  "config",
  "examples",
  "runners/src",
  "scripts",
  "site",
  "src",
  "systems",
  "telemetry",
  "testing",
  "tests",
];

describe("no files import each other in a circle, not even by types", () => {
  // All files are in one graph, because the page imports types of the command, and tests import everything.
  const files = FOLDERS.flatMap((folder) => listSourceFiles(folder, /\.(?:tsx?|mts|mjs|js)$/));
  const imports = new Map(files.map((file) => [file, resolveImports(file, readFileSync(file, "utf8"))]));
  const cycles = findCycles(imports);

  it.each(FOLDERS)("in %s", (folder) => {
    expect(cycles.filter(([first = ""]) => first.startsWith(`${folder}/`))).toEqual([]);
  });

  it("every imported file is part of the check", () => {
    const isInside = (file: string) => FOLDERS.some((folder) => file.startsWith(`${folder}/`));
    const others = [...imports.values()].flat().filter((file) => isInside(file) && !imports.has(file));
    expect(others.filter((file) => !/\.(json|css|vue)$|\/dist\//.test(file))).toEqual([]);
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
