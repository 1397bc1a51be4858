import { execFile, execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { tempFolder } from "../support/temp-folder.js";
import { count } from "./counts.js";

const SCRIPT = fileURLToPath(new URL("full-disk.mjs", import.meta.url));
const BEFORE = [1, 2, 3, 4, 5].map((number) => `before-${number}`);

interface Report {
  readonly kind: string;
  readonly saved: readonly number[];
  readonly errors: readonly { readonly code: string; readonly message: string; readonly retryable: boolean }[];
  readonly acknowledged: readonly string[];
  readonly whileFull: readonly string[];
  readonly readByAnother: readonly string[];
  readonly readAnew: unknown;
  readonly next: number | string;
  readonly afterwards: readonly string[];
}

/** The options of unshare that mount a private disk, as root or as a normal user. */
const unshare = [["-m"], ["-rm"]].find((options) => {
  try {
    execFileSync("unshare", [...options, "sh", "-c", "mount -t tmpfs tmpfs /mnt"], { stdio: "pipe" });
    return true;
  } catch {
    return false;
  }
});
const skipped = unshare === undefined ? " (skipped: no disk can be mounted here)" : "";

describe.skipIf(unshare === undefined)(`a full disk${skipped}`, () => {
  it("leaves the history readable, is named in the error, and takes the next save once there is room", async () => {
    for (const report of await reportsOn("json-file", "task-file", "sqlite")) expectIntact(report);
  });

  // PostgreSQL refuses to run as root, and only root can run it as another user.
  const isRoot = unshare?.[0] === "-m";
  it.skipIf(!isRoot)(
    `does the same for a tablespace of PostgreSQL${isRoot ? "" : " (skipped: needs root)"}`,
    async () => {
      const [report] = await reportsOn("postgres");
      expectIntact(report!);
      const { errors, saved, acknowledged } = report!;
      for (const { message } of errors)
        expect(message).toMatch(/has no space.*\(53100\).*earlier checkpoints are intact/);
      const kept = saved.length + acknowledged.length;
      process.stdout.write(`postgres: full tablespace, ${errors.length} saves refused, ${kept} acknowledged, 0 lost\n`);
    },
  );
});

async function reportsOn(...kinds: readonly string[]): Promise<readonly Report[]> {
  const command = [...(unshare ?? []), process.execPath, SCRIPT, await tempFolder(), ...kinds];
  const { stdout } = await promisify(execFile)("unshare", command);
  const reports = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Report);
  expect(reports.map(({ kind }) => kind)).toEqual(kinds);
  return reports;
}

function expectIntact({ kind, saved, errors, acknowledged, whileFull, readByAnother, ...rest }: Report): void {
  expect(saved, kind).toEqual([1, 2, 3, 4, 5]);
  expect(errors.length, kind).toBeGreaterThan(0);
  for (const error of errors) {
    expect(error, kind).toMatchObject({ code: "STORAGE_FAILED", retryable: true });
    expect(error.message, kind).toMatch(/disk is full|no space left/i);
  }
  expect(whileFull, kind).toEqual([...BEFORE, ...acknowledged]);
  expect(readByAnother, kind).toEqual(whileFull);
  expect(rest.readAnew, kind).toEqual(whileFull);
  // A log on files may have used a sequence for a record that it couldn't write.
  expect(rest.next, kind).toBeGreaterThan(whileFull.length);
  expect(rest.afterwards, kind).toEqual([...whileFull, "after"]);
  count({ what: "saves to a full disk", store: kind, operation: "append", tried: errors.length, lost: 0 });
}
