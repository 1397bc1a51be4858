import { join } from "node:path";
import { execa } from "execa";
import { expect, it } from "vitest";
import { collect, newSchema, openAdapter } from "../../../support/postgres.js";

const PROCESSES = 50;
const ROOT = join(import.meta.dirname, "../../../..");
/** A user's program that starts. It prints "ready" once it has loaded everything, and saves when stdin has data. */
const PROGRAM = `
  import { once } from "node:events";
  import { CheckpointManager } from "waymark";
  import { openStorage } from "waymark/adapters";
  const manager = new CheckpointManager({ storage: openStorage(process.argv[1]) });
  console.log("ready");
  await once(process.stdin, "data");
  await manager.save("t", process.pid);
  await manager.close();
  process.exit();
`;

it(`${PROCESSES} processes that start at once on an empty database all save`, async () => {
  const { url, schema } = await newSchema();
  const args = ["--input-type=module", "-e", PROGRAM, `${url}?schema=${schema}`];
  const processes = Array.from({ length: PROCESSES }, () => execa(process.execPath, args, { cwd: ROOT }));
  await Promise.all(processes.map((one) => new Promise((resolve) => one.stdout.once("data", resolve))));
  for (const one of processes) one.stdin.write("go\n");
  await Promise.all(processes);
  const stored = await collect(openAdapter({ url, schema }).list({ taskId: "t", order: "oldest" }));
  expect(stored.map((item) => ("corrupt" in item ? item.reason : item.sequence))).toEqual(
    Array.from({ length: PROCESSES }, (_, index) => index + 1),
  );
});
