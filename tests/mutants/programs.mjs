// @ts-check
// node programs.mjs [<number> <seed> [<kind of storage>]]: runs random programs in one process, in memory or on a storage
// with files. It uses no test runner, because starting one takes longer than finding most mutants.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundled } from "../support/bundled.mjs";

/** @type {typeof import("../programs/try-programs.js")} */
const { tryPrograms } = await import(await bundled("tests/programs/try-programs.ts"));
const [, , number = "300", seed = "1", kind] = process.argv;
if (kind === undefined) await tryPrograms(Number(number), Number(seed));
else {
  const folder = mkdtempSync(join(tmpdir(), "waymark-programs-"));
  try {
    await tryPrograms(Number(number), Number(seed), { kind, folder });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
