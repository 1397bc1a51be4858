// @ts-check
// node programs.mjs [<kind of storage>]: runs random programs in one process, in memory or on a storage with files. It
// uses no test runner, because starting one takes longer than finding most mutants.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundled } from "../support/bundled.mjs";

/** @type {typeof import("../programs/try-programs.js")} */
const { tryPrograms } = await import(await bundled("tests/programs/try-programs.ts"));
const [, , kind] = process.argv;
if (kind === undefined) await tryPrograms(300, 1);
else {
  const folder = mkdtempSync(join(tmpdir(), "waymark-programs-"));
  try {
    await tryPrograms(60, 1, { kind, folder });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
