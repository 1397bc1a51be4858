import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

it("runs, workers and steps that share a signal warn of no leak, and leave no listener", async () => {
  const program = fileURLToPath(new URL("../../fixtures/many-abort-listeners.mjs", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [program]);
  expect(JSON.parse(stdout)).toEqual({ warnings: [], listening: 1, left: 0 });
});
