import { readFileSync } from "node:fs";
import { afterEach, describe, expect, it, vi } from "vitest";
import { StorageError } from "waymark";
import {
  type CheckpointOptions,
  cleanupCheckpoints,
  completeCheckpoint,
  createCheckpoint,
  listCheckpoints,
  loadCheckpoint,
} from "waymark/phase-checkpoints";
import { arm, faults } from "../../support/failing-fs.js";
import { CRITERIA, daysAgo, paiFolder, SEED } from "./pai-folder.js";

vi.mock("node:fs", async (original) => {
  const { failingFs } = await import("../../support/failing-fs.js");
  return failingFs(await original());
});

afterEach(() => arm(0));

/** Checks that a failed call returns an answer or throws a StorageError, never a raw error. */
const outcomeOf = (call: Promise<object>) =>
  call.then(
    (answer) => answer,
    (error: unknown) => {
      expect(error).toBeInstanceOf(StorageError);
      return { ok: false };
    },
  );

const writes: Record<string, (options: CheckpointOptions, id: string) => Promise<object>> = {
  createCheckpoint: (options) => createCheckpoint("verify", 6, "t", CRITERIA, {}, options),
  completeCheckpoint: (options, id) => completeCheckpoint(id, options),
  "completeCheckpoint, with the earlier ones": (options, id) =>
    completeCheckpoint(id, { ...options, withEarlier: true }),
  cleanupCheckpoints: (options) => cleanupCheckpoints(30, options),
};

describe("if a file system call fails", () => {
  it.each(Object.entries(writes))(
    "%s damages neither checkpoints nor seed.json, and can be called again",
    async (name, write) => {
      for (let failing = 1; ; failing++) {
        const pai = await paiFolder(SEED);
        await pai.writeAsSpec({ createdAt: daysAgo(60), sessionId: "s1" });
        await pai.writeAsSpec({ createdAt: daysAgo(50), sessionId: "s1", completed: true });
        const id = await pai.create();
        const before = await listCheckpoints(pai.options);

        arm(failing);
        const outcome = await outcomeOf(write(pai.options, id));
        const { calls, names } = faults;
        arm(0);

        const where = `call ${failing}, ${names[failing - 1]}`;
        pai.invalid.length = 0;
        const after = await listCheckpoints(pai.options);
        expect(pai.invalid, where).toEqual([]);
        expect(JSON.parse(readFileSync(pai.seedPath, "utf8")).learned, where).toEqual([]);
        const kept = name === "cleanupCheckpoints" ? [id] : before.map((checkpoint) => checkpoint.id);
        expect(
          after.map((checkpoint) => checkpoint.id),
          where,
        ).toEqual(expect.arrayContaining(kept));
        if ("checkpointId" in outcome) expect(after[0]?.id, where).toBe(outcome.checkpointId);
        if (name.startsWith("complete") && !("error" in outcome)) {
          expect(await loadCheckpoint(id, pai.options), where).toMatchObject({ completed: true });
        }

        // The lock is free again, and the same call succeeds.
        expect(await write(pai.options, id), where).not.toHaveProperty("error");
        if (calls < failing) return;
      }
    },
  );
});
