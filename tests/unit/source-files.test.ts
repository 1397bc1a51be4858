import { expect, it } from "vitest";
import { findImports, resolveImports } from "../support/source-files.js";

it.each([
  'import "../b.js";',
  "import type { B } from '../b.js';",
  'export { b } from "../b.js";',
  "import('../b.js')",
  'type B = import("../b.js").B;',
  'const b = require("../b.js");',
])("the checks of imports read %s", (text) => expect(resolveImports("src/codec/a.ts", text)).toEqual(["src/b.ts"]));

it.each([
  "import { x } from 'waymark/dist/x.js';",
  'const x = await import("waymark/dist/x.js");',
  'const x = createRequire(import.meta.url)("waymark/dist/x.js");',
  "const x = loadPackage('waymark/dist/x.js');",
])("and %s", (text) => expect(findImports(text)).toEqual(["waymark/dist/x.js"]));
