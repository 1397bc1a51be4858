// @ts-check
// Random programs in memory, without a test runner, which takes longer to start than most mutants take to be found.
import { bundled } from "../support/bundled.mjs";

/** @type {typeof import("../programs/try-programs.js")} */
const { tryPrograms } = await import(await bundled("tests/programs/try-programs.ts"));
await tryPrograms(300, 1);
