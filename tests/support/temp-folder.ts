import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** An empty folder that is removed when the test is over. @param place - Its parent folder. */
export async function tempFolder(place = tmpdir()): Promise<string> {
  const folder = await mkdtemp(join(place, "waymark-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
