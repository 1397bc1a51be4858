// Runs the example as a person would. The example itself checks its dashboard.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { beforeAll, expect, it } from "vitest";
import { dashboardQueries, unknownNames } from "../../examples/observability/src/dashboard.js";
import { runExample } from "../support/run-example.js";

const root = join(import.meta.dirname, "..", "..");
const example = join(root, "examples", "observability");
/** A test takes some seconds, and longer on a machine that is busy with other tests. */
const timeout = 300_000;

beforeAll(async () => {
  // The example is always rebuilt, because an existing build may be from older sources.
  await execa("npm", ["run", "build", "-w", "waymark-example-observability"], { cwd: root });
}, timeout);

it("prints what its README shows, with metrics for each name of the dashboard", { timeout }, async () => {
  const [, shown = ""] = /```text\n(.*?)```/s.exec(readFileSync(join(example, "README.md"), "utf8")) ?? [];
  const { exitCode, output } = await runExample([join(example, "dist", "main.js")], { cwd: root }, undefined);
  expect(exitCode, output).toBe(0);
  expect(output.trim()).toBe(shown.trim());
});

it("finds a name in the dashboard that isn't a metric", async () => {
  const queries = await dashboardQueries();
  const unknown = unknownNames(
    queries,
    'waymark_saves_total{waymark_status="running"} 14\nwaymark_save_size_bytes_sum 9',
  );
  expect(unknown).toContain("waymark_conflicts_total");
  expect(unknown).toContain("waymark_save_duration(_seconds)?_bucket");
  expect(unknown).not.toContain("waymark_saves_total");
  expect(unknown).not.toContain("waymark_save_size(_bytes)?_sum");
  expect(unknown).not.toContain("waymark_status");
});
