import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { expect, it } from "vitest";

it("runs under node:test, whose report names the problems", async () => {
  const file = fileURLToPath(new URL("../../fixtures/rehearsed-by-node.mjs", import.meta.url));
  const { exitCode, stdout } = await execa(process.execPath, ["--test", "--test-reporter=tap", file], {
    reject: false,
  });
  expect(exitCode).toBe(1);
  expect(stdout).toMatch(/^ok 1 - comes out the same wherever it is stopped$/m);
  expect(stdout).toMatch(/^not ok 2 - depends on chance$/m);
  expect(stdout).toContain("unstable: not every run has the step");
});
