import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { storageFailure } from "../../../../adapters/files/failure.js";
import { StorageError } from "../../../../src/contract/errors.js";

describe("storageFailure", () => {
  it("reports what failed, where, what is intact and what to do, and keeps the cause", () => {
    const cause = systemError("ENOSPC", "/store/t/x");
    const failure = storageFailure(cause, { doing: 'save to task "t"', path: "/store/t" });
    expect(failure).toBeInstanceOf(StorageError);
    expect(failure).toMatchObject({ code: "STORAGE_FAILED", retryable: true, cause });
    expect((failure as Error).message).toBe(
      'Could not save to task "t": ENOSPC at /store/t/x. This call was not acknowledged; earlier checkpoints are intact. ' +
        "The disk is full: free some space, then try again.",
    );
  });

  it("reports that a failed read has changed nothing", () => {
    const failure = storageFailure(systemError("ENOTDIR"), { doing: "read tasks", path: "/store", isRead: true });
    expect((failure as Error).message).toBe(
      "Could not read tasks: ENOTDIR at /store. Reading changes nothing, so saved checkpoints are intact. " +
        "A part of the path is a file where a folder is needed: move that file away, or choose another path.",
    );
  });

  it("names the task's folder if the system names no path", () => {
    const failure = storageFailure(systemError("EIO"), { doing: "read tasks", path: "/store" });
    expect((failure as Error).message).toContain("EIO at /store.");
    expect(failure).toMatchObject({ retryable: false });
  });

  it("advises to look at the cause if it has no better advice", () => {
    const failure = storageFailure(systemError("ESTALE"), { doing: "read tasks", path: "/store" });
    expect((failure as Error).message).toContain("Look at the error's cause");
    expect(failure).toMatchObject({ retryable: true });
  });

  it("returns typed errors and bugs unchanged", () => {
    for (const error of [new StorageError("x"), new TypeError("y"), "z"]) {
      expect(storageFailure(error, { doing: "read tasks", path: "/store" })).toBe(error);
    }
  });
});

function systemError(code: string, path?: string): Error {
  try {
    readdirSync("/nowhere/at/all");
  } catch (error) {
    return Object.assign(error as Error, { code, path });
  }
  throw new Error("There is such a folder.");
}
