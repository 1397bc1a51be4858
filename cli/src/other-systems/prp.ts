import { join } from "node:path";
import { openStorage } from "waymark/adapters";
import type { OtherSystem } from "./index.js";
import { ReadOnlyStorage } from "./read-only-storage.js";
import { namesIn } from "./system-folder.js";

/**
 * Returns a session of `waymark prp`. Its artifacts folder is a storage, so its checkpoints are in Waymark's own
 * format.
 */
export async function prpAt(path: string): Promise<OtherSystem | undefined> {
  const artifacts = join(path, "artifacts");
  for (const task of await namesIn(artifacts)) {
    if (!(await namesIn(join(artifacts, task))).includes("checkpoints.json")) continue;
    const what = "a session of waymark prp";
    const how = `"waymark prp status --session ${path}" shows it, and --storage tasks:${artifacts} its checkpoints.`;
    const advice = `${path} is ${what}. ${how}`;
    return {
      url: `tasks:${artifacts}`,
      what,
      how,
      open: async () => new ReadOnlyStorage(openStorage(`tasks:${artifacts}`), advice),
    };
  }
  return undefined;
}
