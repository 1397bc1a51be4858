import { open, readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Checkpoints in a format of their own, and how to get at them. */
export interface OtherSystem {
  /** What is there: `checkpoints of waymark oneshot`. */
  readonly what: string;
  /** The command or the function that works on it. */
  readonly how: string;
}

/**
 * The system of ours that has left checkpoints at a path where no storage has. Without it, a look at them by the wrong
 * means would find nothing and say so.
 */
export async function otherSystemAt(path: string): Promise<OtherSystem | undefined> {
  // What a killed program has saved may be in the log alone.
  if ((await isBuilds(path)) || (await isBuilds(`${path}-wal`))) {
    return { what: "a database of waymark/builds", how: "Its createBuildCheckpoints reads it." };
  }
  const oneshot = await systemFolder(path, ".sdp");
  if (oneshot !== undefined) {
    const how = `In ${dirname(dirname(oneshot))}, "waymark oneshot FEATURE --resume" continues a feature.`;
    return { what: "checkpoints of waymark oneshot", how };
  }
  const phases = await systemFolder(path, ".pai");
  if (phases !== undefined) {
    return {
      what: "checkpoints of waymark/phase-checkpoints",
      how: "Its detectIncompleteCheckpoint finds the newest.",
    };
  }
  const artifacts = join(path, "artifacts");
  for (const task of await namesIn(artifacts)) {
    if (!(await namesIn(join(artifacts, task))).includes("checkpoints.json")) continue;
    const how = `"waymark prp status --session ${path}" shows it, and --storage tasks:${artifacts} its checkpoints.`;
    return { what: "a session of waymark prp", how };
  }
  return undefined;
}

/** The folder `.sdp/checkpoints`, named by any of its parts, if it has checkpoints. */
async function systemFolder(path: string, name: string): Promise<string | undefined> {
  const folders = [join(path, name, "checkpoints")];
  if (basename(path) === name) folders.push(join(path, "checkpoints"));
  if (basename(dirname(path)) === name) folders.push(path);
  for (const folder of folders) {
    if ((await namesIn(folder)).some((file) => file.endsWith(".json"))) return folder;
  }
  return undefined;
}

/** Nothing for what isn't there, or is no folder. */
async function namesIn(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch(() => []);
}

/** By the definitions of tables, which stand at a database's beginning as they were written. */
async function isBuilds(path: string): Promise<boolean> {
  const file = await open(path).catch(() => undefined);
  try {
    const read = await file?.read(Buffer.alloc(64 * 1024)).catch(() => undefined);
    return read?.buffer.includes("TABLE build_states") ?? false;
  } finally {
    await file?.close();
  }
}
