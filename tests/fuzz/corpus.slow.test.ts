import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";

const RUN = join(import.meta.dirname, "run.mjs");

it("answers every former finding of fuzzing, and every seed, as it must", () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [RUN, "--replay"], { encoding: "utf8" });
  expect(stdout + stderr).toMatch(/Replayed \d+ inputs, 0 findings\./);
  expect(status).toBe(0);
});
