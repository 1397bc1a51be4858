// The example, run as a person runs it.
import { join } from "node:path";
import { execa } from "execa";
import { expect, it } from "vitest";
import { runExample } from "../support/run-example.js";

const root = join(import.meta.dirname, "..", "..");
/** Some ten seconds, and the machine may be busy with the other tests. */
const timeout = 300_000;

it("ships each order, though a worker is killed and a shard moves", { timeout }, async () => {
  await execa("npm", ["run", "build", "-w", "waymark-example-sharding"], { cwd: root });
  const main = join(root, "examples", "sharding", "dist", "main.js");
  const { exitCode, output } = await runExample([main], { cwd: root }, undefined);
  expect(exitCode, output).toBe(0);
  // The kill may come between a shipment and its record.
  expect(output).toMatch(/All 200 orders are shipped: 200 different keys, [01] shipped twice\./);
});
