// Runs the example as a person would.
import { join } from "node:path";
import { execa } from "execa";
import { expect, it } from "vitest";
import { runExample } from "../support/run-example.js";

const root = join(import.meta.dirname, "..", "..");
/** The test takes some ten seconds, and longer on a machine that is busy with other tests. */
const timeout = 300_000;

it("ships each order, though a worker is killed and a shard moves", { timeout }, async () => {
  await execa("npm", ["run", "build", "-w", "waymark-example-sharding"], { cwd: root });
  const main = join(root, "examples", "sharding", "dist", "main.js");
  const { exitCode, output } = await runExample([main], { cwd: root }, undefined);
  expect(exitCode, output).toBe(0);
  // The kill may come between a shipment and its record.
  expect(output).toMatch(/All 200 orders are shipped: 200 different keys, [01] shipped twice\./);
});
