import { statSync } from "node:fs";
import { basename } from "node:path";
import { storageFailure } from "../../adapters/files/failure.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { isRecord, readJsonObject, UnreadableError } from "../json-object.js";
import { withLockedFile } from "../locked-folder.js";

/**
 * Writes a checkpoint's id to `state.checkpointRef` of a `seed.json`. All other keys stay. A missing file isn't
 * created, because another system owns it.
 *
 * @throws {CheckpointCorruptError} The file is not a JSON object with an object `state`; it was left as it is.
 * @throws {StorageError} The file can't be read or written; it was left as it is.
 */
export async function setCheckpointRef(seedPath: string, checkpointId: string): Promise<void> {
  await changeRef(seedPath, () => checkpointId);
}

/**
 * Removes `state.checkpointRef` if it is one of these ids.
 *
 * @throws {CheckpointCorruptError | StorageError} As {@link setCheckpointRef}.
 */
export async function clearCheckpointRef(seedPath: string, checkpointIds: readonly string[]): Promise<void> {
  await changeRef(seedPath, (ref) => (checkpointIds.some((id) => id === ref) ? undefined : ref));
}

/** Returns the new reference, given the old one; `undefined` removes it. */
type NextRef = (ref: unknown) => unknown;

async function changeRef(seedPath: string, next: NextRef): Promise<void> {
  try {
    if (isLeftAsItIs(seedPath, next)) return;
    await withLockedFile(seedPath, `.${basename(seedPath)}.lock`, async (lock) => {
      const changed = changedSeed(seedPath, next);
      if (changed === undefined) return;
      await lock.write(seedPath, Buffer.from(changed), { mode: statSync(seedPath).mode & 0o777 });
    });
  } catch (error) {
    if (!(error instanceof UnreadableError)) {
      throw storageFailure(error, { doing: "change state.checkpointRef", path: seedPath });
    }
    throw new CheckpointCorruptError(
      `Could not change state.checkpointRef in ${seedPath}: ${error.message}. The file was left as it is. Repair it, or ` +
        "give another seedPath.",
      { cause: error },
    );
  }
}

/** Whether nothing needs changing. Then no lock is taken, as in most cleanups. */
function isLeftAsItIs(seedPath: string, next: NextRef): boolean {
  try {
    return changedSeed(seedPath, next) === undefined;
  } catch (error) {
    // Another program may be writing the file just now, so it is read again under the lock.
    if (error instanceof UnreadableError) return false;
    throw error;
  }
}

/** The file's new text; `undefined` if there is no file, or nothing to change. */
function changedSeed(seedPath: string, next: NextRef): string | undefined {
  const seed = readJsonObject(seedPath);
  if (seed === undefined) return undefined;
  const { state = {} } = seed;
  if (!isRecord(state)) throw new UnreadableError("its state is not an object");
  const { checkpointRef } = state;
  const ref = next(checkpointRef);
  if (ref === checkpointRef) return undefined;
  // JSON.stringify leaves out an undefined value.
  return `${JSON.stringify({ ...seed, state: { ...state, checkpointRef: ref } }, null, 2)}\n`;
}
