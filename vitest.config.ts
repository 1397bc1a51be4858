import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { configDefaults, defineConfig } from "vitest/config";
import { LongSuitesFirst } from "./tests/long-suites-first.js";
import { memoryDisk } from "./tests/support/memory-disk.mjs";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

// Node reads it at each start, in 45 ms, and tests start thousands of processes. None of them makes a connection.
delete process.env["NODE_EXTRA_CA_CERTS"];

const disk = memoryDisk();
if (disk !== undefined) process.env["TMPDIR"] ??= disk;

/**
 * `npm test` runs what a change is likely to break, in three minutes. Files named `*.slow.test.ts` run in `npm run check`
 * and in CI: `slow` is those alone, `full` is all.
 */
const extent = process.env["WAYMARK_TESTS"];
const left = { slow: ["**/!(*.slow).test.ts"], full: [] }[extent ?? ""] ?? ["**/*.slow.test.ts"];

/** The same random tests each time, so that only a change can break one. Slow runs try new ones; the last line has their seed. */
process.env["WAYMARK_SEED"] ??= String(extent === undefined ? 1 : Math.floor(Math.random() * 2 ** 31));

/** Tests that replace a module, or load one twice. The others share their modules and processes, which saves starting them. */
const ALONE = [
  "tests/**/*failing-calls*.test.ts",
  "tests/unit/adapters/{files/lock,files/remembered-folders,files/removed-while-*,postgres/pauses,sqlite/opening,sqlite/sync}.test.ts",
  "tests/unit/contract/two-copies.test.ts",
  // Counts the real timers of its process.
  "tests/unit/runs/simulated-time.test.ts",
];

export default defineConfig({
  plugins: [
    {
      name: "waymark:exclude-on-the-command-line",
      // Vitest applies --exclude to no project.
      configureVitest: ({ vitest, project }) => void project.config.exclude.push(...(vitest.config.cliExclude ?? [])),
    },
  ],
  resolve: {
    // Tests see the sources under the package's own name; processes that they start see the build.
    alias: [
      { find: /^waymark$/, replacement: here("src/index.ts") },
      { find: /^waymark\/adapter$/, replacement: here("src/adapter.ts") },
      { find: /^waymark\/testing$/, replacement: here("testing/index.ts") },
      { find: /^waymark\/conformance$/, replacement: here("conformance/index.ts") },
      { find: /^waymark\/oneshot$/, replacement: here("systems/oneshot/index.ts") },
      { find: /^waymark\/phase-checkpoints$/, replacement: here("systems/phase-checkpoints/index.ts") },
      { find: /^waymark\/prp$/, replacement: here("systems/prp/index.ts") },
      { find: /^waymark\/builds$/, replacement: here("systems/builds/index.ts") },
      { find: /^waymark\/langgraph$/, replacement: here("systems/langgraph/index.ts") },
      { find: /^waymark\/langgraph\/records$/, replacement: here("systems/langgraph/stored-threads.ts") },
      { find: /^waymark\/kit$/, replacement: here("systems/kit.ts") },
      { find: /^waymark-runners\/(oneshot|plans|processes|prp)$/, replacement: here("runners/src/$1/index.ts") },
      { find: /^waymark\/config$/, replacement: here("config/index.ts") },
      { find: /^waymark\/opentelemetry$/, replacement: here("telemetry/opentelemetry.ts") },
      { find: /^waymark\/adapters$/, replacement: here("adapters/index.ts") },
      { find: /^waymark\/adapters\/memory$/, replacement: here("adapters/memory.ts") },
      { find: /^waymark\/adapters\/sqlite$/, replacement: here("adapters/sqlite/sqlite.ts") },
      { find: /^waymark\/adapters\/postgres$/, replacement: here("adapters/postgres/postgres.ts") },
      { find: /^waymark\/adapters\/(json-file|task-file)$/, replacement: here("adapters/files/$1.ts") },
    ],
  },
  test: {
    reporters: [["default", { summary: false }], "./tests/closing-line-reporter.ts"],
    projects: [
      { extends: true, test: { name: "alone", include: ALONE } },
      { extends: true, test: { name: "shared", include: ["tests/**/*.test.ts"], exclude: ALONE, isolate: false } },
    ],
    exclude: [...configDefaults.exclude, ...left],
    sequence: { sequencer: LongSuitesFirst },
    globalSetup: "tests/support/postgres-server.ts",
    setupFiles: ["tests/support/seeded.ts"],
    // One for each processor: vitest's own choice leaves one idle, and many tests wait for disks and processes. Of the
    // slow ones most do.
    maxWorkers: availableParallelism() + (extent === undefined ? 0 : 1),
    // For a test that hangs. The longest ones take a minute on a busy machine.
    testTimeout: 180_000,
    hookTimeout: 60_000,
    coverage: {
      enabled: process.env["WAYMARK_COVERAGE"] === "1",
      provider: "v8",
      include: [
        "src/**/*.ts",
        "adapters/**/*.ts",
        "config/**/*.ts",
        "conformance/**/*.ts",
        "systems/**/*.ts",
        "telemetry/**/*.ts",
        "testing/**/*.ts",
        "runners/src/**/*.ts",
      ],
      // It runs in processes of its own, where nothing is counted; the suite fails without it.
      exclude: ["conformance/child.ts"],
      reporter: ["text-summary", "text"],
      // For the quick tests alone.
      thresholds: { lines: 92, statements: 90, functions: 92, branches: 84 },
    },
  },
});
