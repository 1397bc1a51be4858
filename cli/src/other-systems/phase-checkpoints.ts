import type { CorruptRecord } from "waymark";
import type { OtherSystem } from "./index.js";
import { ReadOnlyStorage, type SeenCheckpoint } from "./read-only-storage.js";
import { systemFolder } from "./system-folder.js";

/** Returns the checkpoints of waymark/phase-checkpoints. Each session is a task. */
export async function phasesAt(path: string): Promise<OtherSystem | undefined> {
  const folder = await systemFolder(path, ".pai");
  if (folder === undefined) return undefined;
  const what = "checkpoints of waymark/phase-checkpoints";
  const how = "Its detectIncompleteCheckpoint finds the newest.";
  return {
    url: `files:${folder}`,
    what,
    how,
    open: async () => ReadOnlyStorage.of(await checkpointsIn(folder), `${folder} has ${what}. ${how}`),
  };
}

async function checkpointsIn(folder: string): Promise<(SeenCheckpoint | CorruptRecord)[]> {
  const { listCheckpoints } = await import("waymark/phase-checkpoints");
  const damaged: CorruptRecord[] = [];
  const onInvalidFile = ({ path, reason }: { readonly path: string; readonly reason: string }) =>
    void damaged.push({ corrupt: true, location: path, reason });
  // `listCheckpoints` never throws: it reports failures to its logger.
  const failures: unknown[] = [];
  const error = (details: object) => void failures.push("error" in details ? details.error : details);
  const logger = { debug() {}, info() {}, warn() {}, error };
  const states = await listCheckpoints({ checkpointsDir: folder, onInvalidFile, logger });
  if (failures.length > 0) throw failures[0];
  const checkpoints = states.reverse().map((state): SeenCheckpoint => {
    const { id, sessionId: taskId, phase: stage, createdAt, completed, taskSummary: label } = state;
    const status = completed ? "completed" : "running";
    return { taskId, id, createdAt: new Date(createdAt).toISOString(), stage, label, status, state };
  });
  return [...damaged, ...checkpoints];
}
