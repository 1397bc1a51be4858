import { lstatSync } from "node:fs";
import { decodeText } from "../../adapters/files/sealed-record.js";
import { storageFailure } from "../../adapters/files/storage-failure.js";
import { readStored, UnreadableError } from "../../adapters/files/stored-file.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { valueAt, withJsonValue } from "./json-edit.js";
import { writeUnderLock } from "./locked-write.js";

const CHECKPOINT_REF = ["state", "checkpointRef"];

/**
 * Writes a checkpoint's id to `state.checkpointRef` of a `seed.json`. All else in it stays as it is written. Where there
 * is no such file, none is made: it belongs to another system, which fills it.
 *
 * @throws {CheckpointCorruptError} It is no JSON object with an object `state`; it was left as it is.
 * @throws {StorageError} It can't be read or written; it was left as it is.
 */
export async function setCheckpointRef(seedPath: string, checkpointId: string): Promise<void> {
  await changeRef(seedPath, () => checkpointId);
}

/**
 * Removes `state.checkpointRef` where it is one of these ids.
 *
 * @throws {CheckpointCorruptError | StorageError} As {@link setCheckpointRef}.
 */
export async function clearCheckpointRef(seedPath: string, checkpointIds: readonly string[]): Promise<void> {
  await changeRef(seedPath, (ref) => (ref !== undefined && checkpointIds.includes(ref) ? undefined : ref));
}

type NextRef = (ref: string | undefined) => string | undefined;

async function changeRef(seedPath: string, next: NextRef): Promise<void> {
  try {
    // Most clean-ups have nothing to change: then there is nothing to lock.
    if ((await readChange(seedPath, next)) === undefined) return;
    await writeUnderLock({
      lockFolder: `${seedPath}.lock`,
      claim: "file",
      absent: () => undefined,
      work: async (lock) => {
        const change = await readChange(seedPath, next);
        if (change === undefined) return;
        const mode = lstatSync(seedPath).mode & 0o777;
        await lock.write(seedPath, Buffer.from(change), { firstInFolder: false, mode });
      },
    });
  } catch (error) {
    if (!(error instanceof UnreadableError)) {
      throw storageFailure(error, { doing: "change state.checkpointRef", path: seedPath });
    }
    throw new CheckpointCorruptError(
      `Could not change state.checkpointRef in ${seedPath}: ${error.message}. It was left as it is; mend it, or give another seedPath.`,
      { cause: error },
    );
  }
}

/** The file's text with the change; `undefined` where there is no file, or nothing to change. */
async function readChange(seedPath: string, next: NextRef): Promise<string | undefined> {
  const content = await readStored(seedPath);
  if (content === undefined) return undefined;
  const text = decodeText(content);
  const ref = valueAt(text, CHECKPOINT_REF);
  const changed = withJsonValue(text, CHECKPOINT_REF, next(typeof ref === "string" ? ref : undefined));
  return changed === text ? undefined : changed;
}
