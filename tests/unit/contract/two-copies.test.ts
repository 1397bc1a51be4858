import { expect, it, vi } from "vitest";
import * as ours from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { ownHolder } from "../../../src/contract/holder.js";

const KEY = Buffer.alloc(32, 1);
const OTHER_KEY = Buffer.alloc(32, 2);

/** Loads a second copy of the package, as if a project's copy is used with a globally installed command. */
async function anotherCopy(): Promise<typeof ours> {
  vi.resetModules();
  const copy = await import("waymark");
  expect(copy.CheckpointError).not.toBe(ours.CheckpointError);
  return copy;
}

it("knows another copy's errors by their code", async () => {
  const theirs = new (await anotherCopy()).CheckpointNotFoundError("There is none.", { taskId: "t" });
  expect(theirs).toBeInstanceOf(ours.CheckpointError);
  expect(theirs).toBeInstanceOf(ours.CheckpointNotFoundError);
  expect(theirs).not.toBeInstanceOf(ours.CheckpointCorruptError);
});

it("doesn't take other errors for ours", () => {
  const lookalike = Object.assign(new Error("no"), { code: "CHECKPOINT_NOT_FOUND" });
  expect(lookalike).not.toBeInstanceOf(ours.CheckpointError);
  expect({ code: "CHECKPOINT_NOT_FOUND" }).not.toBeInstanceOf(ours.CheckpointNotFoundError);
  class Own extends ours.CheckpointNotFoundError {}
  expect(new ours.CheckpointNotFoundError("There is none.", { taskId: "t" })).not.toBeInstanceOf(Own);
  expect(new Own("There is none.", { taskId: "t" })).toBeInstanceOf(Own);
});

it("knows the value of another copy's run.next", async () => {
  const theirs = new (await anotherCopy()).CheckpointManager({ storage: new MemoryAdapter() });
  const manager = new ours.CheckpointManager({ storage: new MemoryAdapter() });
  const outer = manager.run("outer", async () => {
    let next: unknown;
    await theirs.run("inner", (run) => {
      if (run.state !== undefined) return 1;
      const first = run.next({ n: 1 });
      next = first;
      return first;
    });
    return next;
  });
  await expect(outer).rejects.toThrow("must return its value");
});

it("has the same holder of leases as another copy, since both end with the process", async () => {
  await anotherCopy();
  expect((await import("../../../src/contract/holder.js")).ownHolder()).toBe(ownHolder());
});

it("reports a wrong key as DECRYPTION_FAILED when another copy's transform refuses it", async () => {
  const storage = new MemoryAdapter();
  const { encrypt } = await anotherCopy();
  const managerWith = (key: Uint8Array) =>
    new ours.CheckpointManager({ storage, transforms: [encrypt({ keys: { k: key }, current: "k" })] });
  await managerWith(KEY).save("t", { step: 1 });
  await expect(managerWith(OTHER_KEY).latest("t")).rejects.toMatchObject({ code: "DECRYPTION_FAILED" });
});
