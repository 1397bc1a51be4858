// Tests verify and repair while each of their file system calls fails.
import { afterEach, expect, it, vi } from "vitest";
import { CheckpointError } from "waymark";
import type { SqliteAdapter } from "waymark/adapters/sqlite";
import { draft } from "../../../../conformance/drafts.js";
import { arm, faults } from "../../../support/failing-fs.js";
import { collect, connect, listed, newStore, openAdapter } from "./support.js";

vi.mock("node:fs", async (original) => {
  const { failingFs } = await import("../../../support/failing-fs.js");
  return failingFs(await original());
});

afterEach(() => arm(0));

/** A store with checkpoints in its log, and a damaged row. */
async function storeWithDamage() {
  const { adapter, path } = await newStore({ durability: "normal" });
  for (const id of ["c1", "c2"]) await adapter.append(draft("t", id));
  // The adapter stays open until the end of the test, so that the log stays.
  connect(path).exec("UPDATE waymark_checkpoints SET label = 'damaged' WHERE id = 'c1'");
  await adapter.close();
  return path;
}

it.each<[string, (adapter: SqliteAdapter) => Promise<unknown>]>([
  ["verify", (adapter) => collect(adapter.maintenance.verify({ quick: false }))],
  ["repair", (adapter) => collect(adapter.maintenance.repair({ leftoversOlderThanMs: 0, dryRun: false }))],
  ["a dry run", (adapter) => collect(adapter.maintenance.repair({ leftoversOlderThanMs: 0, dryRun: true }))],
])("%s succeeds or ends with a typed error, whichever call of the file system fails", async (_what, call) => {
  for (const code of ["EIO", "EACCES"]) {
    for (let failing = 1; ; failing++) {
      const path = await storeWithDamage();
      const adapter = openAdapter({ path });
      arm(failing, code);
      const outcome: unknown = await call(adapter).catch((error: unknown) => error);
      const { calls, names } = faults;
      arm(0);
      if (calls < failing) break;
      if (outcome instanceof Error) {
        expect(outcome, names.at(-1)).toBeInstanceOf(CheckpointError);
        expect(outcome.message).toMatch(/intact|as it was/);
      }
      expect(await listed(openAdapter({ path }))).toContain("c2");
    }
  }
});
