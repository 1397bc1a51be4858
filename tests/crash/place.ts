import { tmpdir } from "node:os";
import { memoryDisk } from "../support/memory-disk.mjs";

/** Where the stores are that are crashed. */
export const PLACE = memoryDisk() ?? tmpdir();
