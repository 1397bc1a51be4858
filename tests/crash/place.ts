import { tmpdir } from "node:os";
import { memoryDisk } from "../support/memory-disk.mjs";

/** The folder of the stores that are crashed. */
export const PLACE = memoryDisk() ?? tmpdir();
