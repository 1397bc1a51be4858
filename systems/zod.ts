import type * as Zod from "zod";
import { isError } from "../src/contract/errors.js";
import { loadPackage } from "../src/contract/load-package.js";

/**
 * zod is loaded with `require`, because it is an optional peer and Node's error for a missing import doesn't say what
 * to do.
 */
export const { z } = loadZod();

function loadZod(): typeof Zod {
  try {
    // Only the package's own declarations could prove what it exports.
    return loadPackage("zod") as typeof Zod;
  } catch (cause) {
    if (!(isError(cause) && "code" in cause && cause.code === "MODULE_NOT_FOUND")) throw cause;
    throw new Error(
      "waymark/prp, waymark/oneshot and waymark/phase-checkpoints check their files with zod, which isn't installed. Run: npm install zod (for a bundle, where it runs)",
      { cause },
    );
  }
}
