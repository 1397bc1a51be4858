import { afterEach, describe, expect, it, vi } from "vitest";
import { StorageError } from "waymark";
import { createCheckpoint, listCheckpoints, loadCheckpoint } from "waymark/phase-checkpoints";
import { arm, faults } from "../../support/failing-fs.js";
import { paiFolder } from "./pai-folder.js";

vi.mock("node:fs", async (original) => {
  const { failingFs } = await import("../../support/failing-fs.js");
  return failingFs(await original());
});

afterEach(() => arm(0));

describe("if a file system call fails", () => {
  it("reports that the disk is full, and saved checkpoints are intact", async () => {
    const { options, create } = await paiFolder();
    const id = await create();
    arm(-1);
    await create();
    const written = faults.names.indexOf("writeSync") + 1;
    arm(written, "ENOSPC");
    const result = await createCheckpoint("verify", 6, "t", [], {}, options);
    arm(0);
    expect(result).toEqual({ ok: false, error: expect.stringContaining("The disk is full") });
    expect(await loadCheckpoint(id, options)).toMatchObject({ id });
  });

  it("a list is complete, except for files that it reports", async () => {
    const { options, create, invalid, logger } = await paiFolder();
    await create();
    await create();
    const whole = await listCheckpoints(options);
    /** The list, or the error that was logged instead. */
    const listed = async () => {
      const before = logger.lines.length;
      const found = await listCheckpoints(options);
      const failure = logger.lines[before];
      return failure === undefined ? found : (failure.details as { readonly error: unknown }).error;
    };
    for (let failing = 1; ; failing++) {
      invalid.length = 0;
      arm(failing);
      const found = await listed();
      const { calls } = faults;
      arm(failing, "EMFILE");
      const starved = await listed();
      arm(0);
      if (found instanceof Error) expect(found).toBeInstanceOf(StorageError);
      else expect((found as unknown[]).length + invalid.length).toBe(whole.length);
      // Too many open files isn't the fault of one file.
      if (starved instanceof Error) expect(starved).toMatchObject({ code: "STORAGE_FAILED", retryable: true });
      else expect(starved).toEqual(whole);
      if (calls < failing) return;
    }
  });
});
