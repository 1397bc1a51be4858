import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { collect, draft, idsOf } from "./drafts.js";
import { filesIn, newJsonStore } from "./stores.js";

const SCRIPT = join(import.meta.dirname, "..", "..", "..", "fixtures", "files", "repair-until-killed.mjs");

it("a repair that is killed anywhere loses nothing, leaves damage that verify finds, and is completed by the next one", async () => {
  let leftovers = 0;
  for (let call = 1; ; call++) {
    const { adapter, root } = await newJsonStore();
    for (const id of ["a1", "a2", "a3"]) await adapter.append(draft("t", id));
    const name = "000000000003-a3.json";
    const damaged = readFileSync(join(root, "t", name), "utf8").replace('"state":', '"stale":');
    writeFileSync(join(root, "t", name), damaged);

    const { signal } = spawnSync(process.execPath, [SCRIPT, root, String(call)]);
    const isCopy = (path: string) => path.includes("000000000003-a3") && !path.endsWith(".reason.json");
    const copies = filesIn(root).filter(isCopy);
    expect(copies.length, `call ${call}`).toBeGreaterThan(0);
    for (const path of copies) expect(readFileSync(join(root, path), "utf8"), `call ${call}`).toBe(damaged);
    const found = await collect(adapter.maintenance.verify({ quick: false }));
    leftovers += found.filter(({ kind }) => kind === "leftover").length;

    await collect(adapter.maintenance.repair({ leftoversOlderThanMs: 0, dryRun: false }));
    expect(await idsOf(adapter.read({ taskId: "t", order: "oldest" })), `call ${call}`).toEqual(["a1", "a2"]);
    expect(filesIn(root).filter(isCopy)).toEqual([
      expect.stringMatching(/^\.quarantine\/t\/000000000003-a3-\w+\.json$/),
    ]);
    expect((await collect(adapter.maintenance.verify({ quick: false }))).map(({ kind }) => kind)).toEqual([
      "checked",
      "checked",
    ]);
    expect(await adapter.append(draft("t", "after")), `call ${call}`).toBe(4);
    if (signal === null) break;
  }
  expect(leftovers).toBeGreaterThan(0);
});
