// Tests the command's workers as processes, in addition to the tests in workers.test.ts.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runOf } from "../unit/runs/run-support.js";
import { waymark, waymarkProcess } from "./waymark.js";
import { placeOf, startWorker, WORKER } from "./worker-process.js";

describe("waymark work", () => {
  it("pauses a run that is under way at SIGTERM, so that another worker continues it", async () => {
    const place = await placeOf();
    await place.manager.enqueue("w/1");
    const code = `export default async (run) => {
      await run.step("plan", () => 1);
      console.error("long");
      await run.step("long", ({ signal }) => setTimeout(60_000, undefined, { signal }));
    };
    import { setTimeout } from "node:timers/promises";`;
    const { child, line, ended } = startWorker(place, code, ["--prefix", "w/"]);
    const [draining, paused] = [line(/^Draining/), line(/^paused/)];
    await line(/^long$/);
    child.kill("SIGTERM");
    expect(await draining).toBe("Draining: waits for w/1. Press Ctrl-C again to end at once.");
    expect(await paused).toBe("paused w/1: this worker is stopping");
    expect(await ended).toEqual([null, "SIGTERM"]);
    expect((await place.manager.latest("w/1"))?.status).toBe("paused");
    expect(await runOf(place.manager, "w/1")).toMatchObject({ steps: [{ name: "plan" }] });
    expect(await place.manager.leaseOf("w/1")).toBeUndefined();
  });

  it("prints only what fails with --quiet", async () => {
    const place = await placeOf();
    await place.manager.enqueue("w/1");
    await place.manager.enqueue("w/2", "fails");
    const { lines } = startWorker(place, WORKER, ["--quiet", "--concurrency", "1"]);
    for await (const line of lines) {
      expect(line).toBe("failed w/2 in build: no room");
      break;
    }
  });

  it("prints events for programs, and continues after a run that fails", async () => {
    const place = await placeOf("files:store");
    await place.manager.enqueue("w/1", "fails");
    const { lines } = startWorker(place, WORKER, ["--ndjson"]);
    const events: unknown[] = [];
    for await (const line of lines) {
      events.push(JSON.parse(line));
      if (events.length === 2) await place.manager.enqueue("w/2");
      if (events.length === 4) break;
    }
    expect(events).toEqual([
      { type: "taken", taskId: "w/1", attempt: 1, recordedSteps: 0 },
      { type: "failed", taskId: "w/1", step: "build", error: { name: "Error", message: "no room" } },
      { type: "taken", taskId: "w/2", attempt: 1, recordedSteps: 0 },
      { type: "paused", taskId: "w/2", reason: expect.stringContaining('it waits for "approve"') },
    ]);
  });

  it.skipIf(!("typescript" in process.features && process.features.typescript !== false))(
    "runs a module in TypeScript (skipped if Node doesn't strip types)",
    async () => {
      const place = await placeOf();
      await place.manager.enqueue("w/1");
      const code = "export default async (run: { taskId: string }): Promise<string> => run.taskId;";
      const { line } = startWorker(place, code, ["--prefix", "w/"], "worker.ts");
      expect(await line(/^completed/)).toBe("completed w/1");
    },
  );

  it("uses the configuration's schema and key", async () => {
    const place = await placeOf();
    const sdk = new URL("../../dist/src/index.js", import.meta.url).href;
    writeFileSync(
      join(place.cwd, "waymark.config.mjs"),
      `import { encrypt } from "${sdk}";
      export default { transforms: [encrypt({ keys: { a: new Uint8Array(32) }, current: "a" })] };`,
    );
    expect((await waymark(place.place, ["enqueue", "w/1", '"secret"'])).code).toBe(0);
    const { line } = startWorker(place, "export default (run) => run.input.length;", ["--prefix", "w/"]);
    expect(await line(/^completed/)).toBe("completed w/1");
    expect(JSON.parse((await waymark(place.place, ["show", "w/1", "--json"])).stdout).run.result).toBe(6);
  });
});

// The test needs a separate process, because Vitest would load the module in its own way.
it.each([
  ["\nthrow new Error('no db');", [], /worker\.mjs could not be loaded: Error: no db \(worker\.mjs:2\)$/m],
  ["throw new Error('no db');", ["--verbose"], /caused by Error: no db\n +at file:.*worker\.mjs:1:7/],
  ["\nexport default {\n  run( {\n};", [], /could not be loaded: SyntaxError: .* \(worker\.mjs:4\)$/m],
  ["export { nope } from 'node:fs';", [], /could not be loaded: SyntaxError: .*nope.* \(worker\.mjs:1\)$/m],
])("waymark work says where %s ends, with %j", async (code, args, message) => {
  const { cwd, place } = await placeOf();
  writeFileSync(join(cwd, "worker.mjs"), code);
  const refused = await waymarkProcess(place, ["work", "--module", "worker.mjs", ...args]);
  expect([refused.code, refused.stdout, refused.stderr]).toEqual([2, "", expect.stringMatching(message)]);
});
