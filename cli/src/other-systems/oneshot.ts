import { dirname, join } from "node:path";
import { type CorruptRecord, UnsupportedFormatError } from "waymark";
import type { OtherSystem } from "./index.js";
import { ReadOnlyStorage, type SeenCheckpoint } from "./read-only-storage.js";
import { systemFolder } from "./system-folder.js";

/** Returns the features of `waymark oneshot`. Each one has a single checkpoint. */
export async function oneshotAt(path: string): Promise<OtherSystem | undefined> {
  const folder = await systemFolder(path, ".sdp");
  if (folder === undefined) return undefined;
  const project = dirname(dirname(folder));
  const what = "checkpoints of waymark oneshot";
  const how = `In ${project}, "waymark oneshot FEATURE --resume" continues a feature.`;
  return {
    url: `files:${folder}`,
    what,
    how,
    open: async () => ReadOnlyStorage.of(await featuresOf(project), `${folder} has ${what}. ${how}`),
  };
}

async function featuresOf(project: string): Promise<(SeenCheckpoint | CorruptRecord)[]> {
  const { CheckpointRepository } = await import("waymark/oneshot");
  const repository = new CheckpointRepository(project);
  const found: (SeenCheckpoint | CorruptRecord)[] = [];
  for (const taskId of await repository.list()) {
    try {
      const { waymark: _run, ...state } = await repository.load(taskId, { force: true });
      const { currentWs, lastUpdate, status } = state;
      const stage = currentWs === "" ? undefined : { stage: currentWs };
      found.push({ taskId, id: taskId, createdAt: lastUpdate.toISOString(), ...stage, status, state });
    } catch (cause) {
      // Skips files that another program wrote.
      if (cause instanceof UnsupportedFormatError) continue;
      const reason = cause instanceof Error ? cause.message : String(cause);
      found.push({ corrupt: true, location: join(repository.checkpointDir, `${taskId}.json`), reason, taskId, cause });
    }
  }
  return found;
}
