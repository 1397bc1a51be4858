// @ts-check
// Everything CI looks at: `npm run check`. `.ci/run` has run the tests already, with coverage: `-- --but-tests`.
import { runSteps } from "./steps.mjs";

const butTests = process.argv.includes("--but-tests");

await runSteps([
  { name: "build", command: "npm run build" },
  [
    { name: "format and lint", command: "npm run lint" },
    { name: "types", command: "npm run types" },
  ],
  ...(butTests ? [] : [{ name: "tests with coverage", command: "npx vitest run --coverage" }]),
  { name: "crashes: every kill, fault and power loss", command: "node scripts/crash.mjs" },
  [
    { name: "a minute of fuzzing", command: "node tests/fuzz/run.mjs --seconds 60" },
    { name: "memory of the command over 100,000 checkpoints", command: "node scripts/cli-memory.mjs" },
    { name: "examples", command: "npm run examples" },
    { name: "API pages", command: "npm run docs" },
    { name: "unused code and dependencies", command: "npm run unused" },
    { name: "the package: publint, attw, installed elsewhere", command: "npm run package" },
  ],
]);
