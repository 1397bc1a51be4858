import { describe, expect, it, onTestFinished, vi } from "vitest";
import { ProcessStartError } from "../../../systems/processes/held-process.js";
import { isRunning, ownIdentity } from "../../../systems/processes/process-group.js";
import { tempFolder } from "../../support/temp-folder.js";
import { processesIn, start } from "./processes.js";

/** The paths that can't be read now, and why. */
const faults = vi.hoisted(() => ({ paths: /^$/, code: "" }));

vi.mock("node:fs/promises", async (importOriginal) => {
  const real = await importOriginal<typeof import("node:fs/promises")>();
  const failing =
    (read: (...args: never[]) => Promise<unknown>) =>
    async (...args: never[]): Promise<unknown> => {
      if (!faults.paths.test(String(args[0]))) return read(...args);
      throw Object.assign(new Error(`${faults.code}: made to fail, ${args[0]}`), { code: faults.code });
    };
  return { ...real, readFile: failing(real.readFile), readlink: failing(real.readlink) };
});

function unreadable(paths: RegExp, code: string): void {
  Object.assign(faults, { paths, code });
  onTestFinished(() => {
    Object.assign(faults, { paths: /^$/ });
  });
}

describe.runIf(process.platform === "linux")("where /proc can't be read (skipped where there is none)", () => {
  it.each(["EMFILE", "ENFILE", "ENOMEM"])(
    "for want of files or memory (%s), no process counts as dead",
    async (code) => {
      unreadable(/^\/proc\//, code);
      await expect(ownIdentity()).rejects.toMatchObject({ code });
      Object.assign(faults, { paths: /^$/ });
      const own = await ownIdentity();
      expect(await isRunning(own)).toBe(true);

      unreadable(/^\/proc\/\d+\/stat$/, code);
      await expect(isRunning(own)).rejects.toMatchObject({ code });
    },
  );

  it("because the process is another user's, or has ended, it counts as not there", async () => {
    const own = await ownIdentity();
    for (const code of ["EACCES", "ENOENT", "ESRCH"]) {
      unreadable(/^\/proc\/\d+\/stat$/, code);
      expect(await isRunning(own)).toBe(false);
    }
  });

  it("while a command is started, that is a typed error, and nothing of the command is left", async () => {
    const cwd = await tempFolder();
    unreadable(/^\/proc\/\d+\/stat$/, "EMFILE");
    await expect(start("sleep 1000", { cwd })).rejects.toThrow(ProcessStartError);
    await expect(start("sleep 1000", { cwd })).rejects.toThrow(/could not be started: it can't be found.*EMFILE/);
    Object.assign(faults, { paths: /^$/ });
    expect(await processesIn(cwd)).toEqual([]);
  });
});

describe.runIf(process.platform === "linux")(
  "a sandbox that doesn't show its namespaces (skipped where there is no /proc)",
  () => {
    it("leaves processes told by pid, boot and start time", async () => {
      vi.resetModules();
      unreadable(/^\/proc\/self\/ns\/pid$/, "EACCES");
      const table = await import("../../../systems/processes/process-table.js");
      const first = await table.findProcess(process.pid);
      expect(first?.startTime).toMatch(/^[0-9a-f-]{36}:pid:\[unknown\]:\d+$/);
      expect(await table.findProcess(process.pid)).toEqual(first);
    });
  },
);
