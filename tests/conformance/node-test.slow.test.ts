import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { conformanceCases } from "waymark/conformance";

const FILE = fileURLToPath(new URL("../fixtures/node-test-conformance.mjs", import.meta.url));

it("runs from the build under node:test, as it does here", { timeout: 300_000 }, async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ["--test", "--test-reporter=tap", FILE], {
    maxBuffer: 2 ** 26,
  });
  const summary = (name: string) => Number(new RegExp(`^# ${name} (\\d+)$`, "m").exec(stdout)?.[1]);
  const forMemory = conformanceCases.filter(
    ({ needs, about }) => needs === undefined && about !== "maintenance",
  ).length;
  expect({ pass: summary("pass"), fail: summary("fail"), skipped: summary("skipped") }).toEqual({
    pass: forMemory,
    fail: 0,
    skipped: 0,
  });
});
