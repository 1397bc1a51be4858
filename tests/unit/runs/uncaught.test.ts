import { execa } from "execa";
import { expect, it } from "vitest";

const PROGRAM = `
  import { CheckpointManager } from "waymark";
  import { MemoryAdapter } from "waymark/adapters/memory";
  const manager = new CheckpointManager({ storage: new MemoryAdapter() });
  await manager.run("a", (run) => run.step("fetch", () => { throw new RangeError("GET /p7: 500"); }));
`;

it("shows a failed step's error, and no line of ours above it, if the program doesn't catch it", async () => {
  const args = ["--input-type=module", "--eval", PROGRAM];
  const { exitCode, stderr } = await execa("node", args, { cwd: import.meta.dirname, reject: false });

  expect(exitCode).toBe(1);
  expect(stderr).toContain("RangeError: GET /p7: 500\n    at ");
  expect(stderr.slice(0, stderr.indexOf("RangeError"))).not.toMatch(/core\.js|new type/);
});
