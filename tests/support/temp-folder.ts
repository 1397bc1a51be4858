import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** Makes an empty folder that is removed after the test. @param place - The parent folder. */
export async function tempFolder(place = tmpdir()): Promise<string> {
  const folder = await mkdtemp(join(place, "waymark-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
