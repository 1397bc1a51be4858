import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { delimiter, join } from "node:path";

/** Whether a program is in the folders of PATH. */
export async function isInstalled(program: string): Promise<boolean> {
  for (const folder of (process.env["PATH"] ?? "/usr/bin:/bin").split(delimiter)) {
    const isThere = await access(join(folder, program), constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isThere) return true;
  }
  return false;
}
