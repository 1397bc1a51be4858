import { hash } from "node:crypto";
import { linkSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { codeOf, storageFailure } from "../../adapters/files/failure.js";
import { idOf, nameOf } from "../../adapters/files/names.js";
import { CheckpointConflictError, CheckpointCorruptError } from "../../src/contract/errors.js";
import { isRecord, readJsonObject, UnreadableError } from "../json-object.js";
import { type LockedFiles, withLock } from "../locked-folder.js";
import { describeIssues, invalidCheckpoint } from "../schema-issues.js";
import { type OneshotCheckpoint, OneshotCheckpointSchema } from "./schema.js";

const EXTENSION = ".json";
/** A hidden folder beside the checkpoints. */
const LOCK_NAME = ".lock";

/** A feature's checkpoint as it was read. */
export interface StoredFeature {
  readonly state: OneshotCheckpoint;
  /** A hash of the file's content: it changes with every change. */
  readonly revision: string;
}

/** A write happens only if the file still has this revision; `undefined` for no file. */
export interface WriteCondition {
  readonly revision: string | undefined;
}

/** A damaged file and its new name. */
export interface SetAside {
  readonly path: string;
  readonly movedTo: string;
  /** What is wrong with it. */
  readonly reason: string;
}

/**
 * The features' checkpoints below a base folder, one file each, in the spec's format. A `waymark` key holds what the
 * spec has no key for: what a run needs, and a checksum of all the rest.
 *
 * ```
 * { "feature_id": "F01", …, "last_update": "…", "waymark": { …, "sha256": "…" } }
 * ```
 *
 * A file without a checksum comes from another program or a person's editor. It counts as it is.
 */
export class FeatureCheckpoints {
  /** `<base>/.sdp/checkpoints`, absolute. */
  readonly folder: string;

  constructor(baseDir: string) {
    this.folder = join(resolve(baseDir), ".sdp", "checkpoints");
  }

  /** @throws {CheckpointCorruptError} The file can't be read; the message names it. */
  async find(featureId: string): Promise<StoredFeature | undefined> {
    return this.#reading(`read feature ${JSON.stringify(featureId)}`, () => this.#read(featureId));
  }

  /**
   * Saves a feature's checkpoint in place of the one before. The state is read at once.
   *
   * @returns The file's new revision.
   * @throws {CheckpointCorruptError} The file there can't be read; it was left untouched.
   * @throws {CheckpointConflictError} The condition doesn't hold; nothing was saved.
   */
  async save(checkpoint: OneshotCheckpoint, condition?: WriteCondition): Promise<string> {
    const { featureId } = checkpoint;
    const { success, data, error } = OneshotCheckpointSchema.safeEncode(checkpoint);
    if (!success) throw invalidCheckpoint(error);
    const { waymark, ...fields } = data;
    const revision = revisionOf(contentOf(fields, waymark));
    const text = JSON.stringify({ ...fields, waymark: { ...waymark, sha256: revision } }, null, 2);
    await this.#locked(`save feature ${JSON.stringify(featureId)}`, async (lock) => {
      assertExpected(featureId, this.#read(featureId)?.revision, condition);
      await lock.write(this.#pathOf(featureId), Buffer.from(`${text}\n`));
    });
    return revision;
  }

  /**
   * Removes a feature's file; without a condition, a damaged one too.
   *
   * @throws {CheckpointConflictError} The condition doesn't hold; nothing was removed.
   */
  async remove(featureId: string, condition?: WriteCondition): Promise<void> {
    // Where nothing is, nothing is made, not even a lock.
    if (!(await this.has(featureId))) return assertExpected(featureId, undefined, condition);
    await this.#locked(`remove feature ${JSON.stringify(featureId)}`, async (lock) => {
      if (condition !== undefined) assertExpected(featureId, this.#read(featureId)?.revision, condition);
      await lock.remove(this.#pathOf(featureId));
    });
  }

  /** Renames a feature's file if it can't be read, so that the feature can be started anew. */
  async setAside(featureId: string): Promise<SetAside | undefined> {
    return this.#locked(`set feature ${JSON.stringify(featureId)} aside`, async (lock) => {
      const path = this.#pathOf(featureId);
      const reason = this.#damageOf(featureId);
      if (reason === undefined) return undefined;
      const movedTo = `${path}.damaged-${new Date().toISOString().replace(/[:.]/g, "-")}`;
      // Not by a rename: if the lock was stolen meanwhile, that could take a new file away.
      linkSync(path, movedTo);
      await lock.remove(path);
      return { path, movedTo, reason };
    });
  }

  /** Whether a feature has a file, damaged or not. */
  async has(featureId: string): Promise<boolean> {
    return this.#reading(`look for feature ${JSON.stringify(featureId)}`, () =>
      this.#names().includes(`${nameOf(featureId)}${EXTENSION}`),
    );
  }

  /** The features that have a file, damaged or not, by id. */
  async features(): Promise<string[]> {
    return this.#reading("list the features", () =>
      this.#names()
        .flatMap((name) => {
          const stem = name.slice(0, -EXTENSION.length);
          const id = idOf(stem) ?? this.#ownerOf(name);
          return id !== undefined && nameOf(id) === stem ? [id] : [];
        })
        .sort(),
    );
  }

  #pathOf(featureId: string): string {
    return join(this.folder, `${nameOf(featureId)}${EXTENSION}`);
  }

  #names(): string[] {
    try {
      return readdirSync(this.folder).filter((name) => name.endsWith(EXTENSION));
    } catch (error) {
      if (codeOf(error) === "ENOENT") return [];
      throw error;
    }
  }

  /** The feature of a file whose name is a hash, because its id is too long for a name. */
  #ownerOf(name: string): string | undefined {
    try {
      const owner = readJsonObject(join(this.folder, name))?.["feature_id"];
      return typeof owner === "string" ? owner : undefined;
    } catch (error) {
      if (error instanceof UnreadableError) return undefined;
      throw error;
    }
  }

  /** What is wrong with a feature's file; `undefined` if it can be read, or isn't there. */
  #damageOf(featureId: string): string | undefined {
    try {
      this.#parse(featureId);
      return undefined;
    } catch (error) {
      if (error instanceof UnreadableError) return error.message;
      throw error;
    }
  }

  /** @throws {CheckpointCorruptError} */
  #read(featureId: string): StoredFeature | undefined {
    try {
      return this.#parse(featureId);
    } catch (cause) {
      if (!(cause instanceof UnreadableError)) throw cause;
      throw new CheckpointCorruptError(
        `The checkpoint of feature ${JSON.stringify(featureId)} can't be read: ${this.#pathOf(featureId)}: ` +
          `${cause.message}. It was left untouched. Repair it (if you edited it, remove its waymark.sha256), delete it, ` +
          "or restart the feature, which sets it aside.",
        { cause },
      );
    }
  }

  /** @throws {UnreadableError} */
  #parse(featureId: string): StoredFeature | undefined {
    const file = readJsonObject(this.#pathOf(featureId));
    if (file === undefined) return undefined;
    const { waymark, ...fields } = file;
    const { sha256 = undefined, ...run } = isRecord(waymark) ? waymark : {};
    const content = isRecord(waymark) ? contentOf(fields, run) : file;
    const revision = revisionOf(content);
    if (sha256 !== undefined && sha256 !== revision) throw new UnreadableError("it fails its checksum: it was changed");
    const { success, data, error } = OneshotCheckpointSchema.safeParse(content);
    if (!success)
      throw new UnreadableError(`it is not a feature's checkpoint: ${describeIssues(error)}`, { cause: error });
    if (data.featureId !== featureId) {
      throw new UnreadableError(`it is the checkpoint of feature ${JSON.stringify(data.featureId)}`);
    }
    return { state: data, revision };
  }

  async #locked<Result>(doing: string, work: (lock: LockedFiles) => Promise<Result>): Promise<Result> {
    try {
      return await withLock(this.folder, LOCK_NAME, work);
    } catch (error) {
      throw storageFailure(error, { doing, path: this.folder });
    }
  }

  #reading<Result>(doing: string, work: () => Result): Result {
    try {
      return work();
    } catch (error) {
      throw storageFailure(error, { doing, path: this.folder, isRead: true });
    }
  }
}

/** A file's content without its checksum. */
function contentOf(fields: object, run: object = {}): object {
  return Object.keys(run).length === 0 ? fields : { ...fields, waymark: run };
}

function revisionOf(content: object): string {
  return hash("sha256", JSON.stringify(content), "hex");
}

/** @throws {CheckpointConflictError} */
function assertExpected(featureId: string, revision: string | undefined, condition: WriteCondition | undefined): void {
  if (condition === undefined || condition.revision === revision) return;
  const found = revision === undefined ? "is gone" : "is another one than this program read";
  throw new CheckpointConflictError(
    `The checkpoint of feature ${JSON.stringify(featureId)} ${found}: another program changed it. Nothing was changed.`,
  );
}
