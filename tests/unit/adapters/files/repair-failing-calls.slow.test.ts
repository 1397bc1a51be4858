import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type StorageAdapter, StorageError } from "waymark";
import { arm, faults } from "../../../support/failing-fs.js";
import { collect, draft, isWhole } from "./drafts.js";
import { filesIn, newJsonStore, newTaskStore } from "./stores.js";

vi.mock("node:fs", async (original) => {
  const { failingFs } = await import("../../../support/failing-fs.js");
  return failingFs(await original());
});

afterEach(() => arm(0));

const OLDEST = { taskId: "t", order: "oldest" } as const;
const REPAIR = { leftoversOlderThanMs: 0, dryRun: false };

/** Makes three checkpoints and damages the newest, whose content then exists nowhere else. */
const stores = {
  "json-file": async () => {
    const { adapter, root, open } = await newJsonStore({ lockTimeoutMs: 0 });
    for (const id of ["a1", "a2", "a3"]) await adapter.append(draft("t", id));
    const path = join(root, "t", "000000000003-a3.json");
    const damaged = readFileSync(path, "utf8").replace('"state":', '"stale":');
    writeFileSync(path, damaged);
    return { adapter, root, open, damaged };
  },
  "task-file": async () => {
    const { adapter, root, open, pathOf } = await newTaskStore({ lockTimeoutMs: 0 });
    for (const id of ["a1", "a2", "a3"]) await adapter.append(draft("t", id));
    const lines = readFileSync(pathOf("t"), "utf8").split("\n");
    const damaged = lines[3]?.replace('"state":', '"stale":') ?? "";
    writeFileSync(pathOf("t"), lines.with(3, damaged).join("\n"));
    return { adapter, root, open, damaged };
  },
};

describe.each(Object.entries(stores))("%s, if a call of the file system fails in a repair,", (_name, make) => {
  it("loses neither the damaged bytes nor a sequence, and the next repair succeeds", async () => {
    for (let failing = 1; ; failing++) {
      const { adapter, root, open, damaged } = await make();
      const holders = () => filesIn(root).filter((name) => holds(join(root, name), damaged));

      arm(failing);
      const outcome = await collect(adapter.maintenance.repair(REPAIR)).catch((error: unknown) => error);
      const { calls, names } = faults;
      arm(0);

      const where = `call ${failing}, ${names[failing - 1]}`;
      if (outcome instanceof Error) expect(outcome, where).toBeInstanceOf(StorageError);
      expect(holders(), where).not.toEqual([]);
      expect(await wholeIds(open()), where).toEqual(["a1", "a2"]);

      await collect(open().maintenance.repair(REPAIR));
      expect(holders(), where).toEqual([expect.stringMatching(/^\.quarantine\/t\/[^/]+\.json$/)]);
      expect(existsSync(join(root, `${holders()[0]}.reason.json`)), where).toBe(true);
      expect(
        (await collect(open().maintenance.verify({ quick: false }))).map(({ kind }) => kind),
        where,
      ).toEqual(["checked", "checked"]);
      expect(await open().append(draft("t", "after")), where).toBe(4);
      if (calls < failing) return;
    }
  });
});

async function wholeIds(adapter: StorageAdapter): Promise<string[]> {
  return (await collect(adapter.read(OLDEST))).flatMap((record) =>
    "seal" in record && isWhole(record) ? record.id : [],
  );
}

function holds(path: string, text: string): boolean {
  try {
    return readFileSync(path, "utf8").includes(text);
  } catch {
    // The path is a folder's.
    return false;
  }
}
