import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { withLock } from "../../../../adapters/files/lock.js";
import { draft } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

describe.each([
  ["json-file", newJsonStore],
  ["task-file", newTaskStore],
] as const)("a %s task that another process has locked", (_name, newStore) => {
  it.each(["append", "setStatus", "remove"])("refuses a waiting %s if the lease is taken", async (call) => {
    const { adapter, root } = await newStore();
    await adapter.append(draft("t", "c1"));
    const { token } = await adapter.leases.claim("t", "first", 600_000);
    const condition = { fencingToken: token };
    const write = () =>
      call === "append"
        ? adapter.append(draft("t", "c2"), condition)
        : call === "remove"
          ? adapter.remove("t", "all", condition)
          : adapter.setStatus("t", "c1", { status: "paused" }, condition);
    let refused: Promise<void> | undefined;
    await withLock(join(root, "t"), { timeoutMs: 5000 }, async () => {
      refused = expect(write()).rejects.toMatchObject({ code: "LEASE_LOST" });
      // Before the call has the lock, it reads the first holder's lease.
      for (let turn = 0; turn < 100; turn++) await nextTurn();
      const path = join(root, "t", ".lease.json");
      const lease = JSON.parse(readFileSync(path, "utf8"));
      writeFileSync(path, JSON.stringify({ ...lease, holder: "second", token: token + 1 }));
    });
    await refused;
    expect(await adapter.get("t", "c1")).toMatchObject({ status: "running" });
    expect(await adapter.get("t", "c2")).toBeUndefined();
  });
});
