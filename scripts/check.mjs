// @ts-check
// Everything CI looks at, beyond the tests: `npm run check`.
import { runSteps } from "./steps.mjs";

runSteps([
  { name: "build", command: "npm run build" },
  { name: "format and lint", command: "npx biome ci ." },
  { name: "lint with types", command: "npx eslint ." },
  { name: "types", command: "npx tsc --noEmit" },
  { name: "tests with coverage", command: "npx vitest run --coverage" },
  { name: "examples", command: "npm run examples" },
  { name: "API pages", command: "npx typedoc" },
  { name: "publint", command: "npx publint --strict" },
  { name: "attw", command: "npx attw --pack . --profile esm-only" },
  { name: "knip", command: "npx knip" },
  { name: "packed package", command: "node tests/package/packed-install.mjs" },
]);
