// @ts-check
// Everything: `npm run check`.
import { runSteps } from "./steps.mjs";

await runSteps([
  { name: "build", command: "npm run build" },
  [
    { name: "format and lint", command: "npm run lint" },
    { name: "types", command: "npm run types" },
  ],
  {
    name: "every test but the crash tests, with coverage",
    command:
      "npx vitest run --coverage --exclude 'tests/crash/**' --exclude tests/hostile/naughty-strings.slow.test.ts",
    env: { ...process.env, WAYMARK_TESTS: "full", WAYMARK_COVERAGE: "1" },
  },
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
