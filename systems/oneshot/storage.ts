import { hash } from "node:crypto";
import { linkSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { storageFailure } from "../../adapters/files/failure.js";
import { parseFileName, toFileName } from "../../adapters/files/names.js";
import {
  CheckpointConflictError,
  CheckpointCorruptError,
  readCode,
  UnsupportedFormatError,
} from "../../src/contract/errors.js";
import {
  isRecord,
  NotAnObjectError,
  parseJsonObject,
  readBytes,
  readJsonObject,
  UnreadableError,
} from "../json-object.js";
import { type LockedFiles, withLockedFile } from "../locked-folder.js";
import { describeIssues, invalidCheckpoint } from "../schema-issues.js";
import { type OneshotCheckpoint, OneshotCheckpointSchema, OneshotFileSchema } from "./schema.js";

const EXTENSION = ".json";
/** A hidden folder beside the checkpoints. */
const LOCK_NAME = ".lock";

/** A feature's checkpoint as it is stored. */
export interface StoredFeature {
  readonly state: OneshotCheckpoint;
  /** A hash of the file's content, which changes with every change. */
  readonly revision: string;
}

/** A write happens only if the file still has this revision. `undefined`: only if there is no file. */
export interface WriteCondition {
  readonly revision: string | undefined;
}

/** A damaged file with its new name. */
export interface SetAside {
  readonly path: string;
  readonly movedTo: string;
  /** Describes the damage. */
  readonly reason: string;
}

/**
 * The features' checkpoints below a base folder, one file each, in the spec's format. The spec has no keys for the
 * run's own data and for a checksum of the rest, so both are under a `waymark` key.
 *
 * ```
 * { "feature_id": "F01", …, "last_update": "…", "waymark": { …, "sha256": "…" } }
 * ```
 *
 * A file without a checksum comes from the spec's own program or a person's editor, and is accepted unchecked. If a file
 * can't be read, and nothing in it shows that it was such a file or ours, it belongs to another program: it is never
 * written, moved or removed.
 */
export class FeatureCheckpoints {
  /** The absolute path of `<base>/.sdp/checkpoints`, or of the caller's folder. */
  readonly folder: string;
  /** The folder of the features' run locks. */
  readonly lockFolder: string;

  /** @param folder - Default: `<base>/.sdp/checkpoints`. */
  constructor(baseDir: string, folder?: string) {
    this.folder = folder === undefined ? join(resolve(baseDir), ".sdp", "checkpoints") : resolve(folder);
    this.lockFolder = folder === undefined ? dirname(this.folder) : this.folder;
  }

  /**
   * @throws {CheckpointCorruptError} The file can't be read; the message names it.
   * @throws {UnsupportedFormatError} Another program wrote the file.
   */
  async find(featureId: string): Promise<StoredFeature | undefined> {
    return this.#reading(`read feature ${JSON.stringify(featureId)}`, () => this.#read(featureId));
  }

  /**
   * Saves a feature's checkpoint and replaces the one before. The state is read at once.
   *
   * @returns The file's new revision.
   * @throws {CheckpointCorruptError} The existing file can't be read; it was left untouched.
   * @throws {UnsupportedFormatError} Another program wrote the existing file; it was left untouched.
   * @throws {CheckpointConflictError} The condition doesn't hold; nothing was saved.
   */
  async save(checkpoint: OneshotCheckpoint, condition?: WriteCondition): Promise<string> {
    const { featureId } = checkpoint;
    const { success, data, error } = OneshotCheckpointSchema.safeEncode(checkpoint);
    if (!success) throw invalidCheckpoint(error);
    const { waymark, ...fields } = data;
    const revision = makeRevision(toContent(fields, waymark));
    const text = JSON.stringify({ ...fields, waymark: { ...waymark, sha256: revision } }, null, 2);
    await this.#locked(featureId, "save", async (lock) => {
      assertExpected(featureId, this.#read(featureId)?.revision, condition);
      await lock.write(this.#toPath(featureId), Buffer.from(`${text}\n`));
    });
    return revision;
  }

  /**
   * Removes a feature's file. Without a condition, it also removes a damaged one.
   *
   * @throws {CheckpointConflictError} The condition doesn't hold; nothing was removed.
   * @throws {UnsupportedFormatError} Another program wrote the file; it was left untouched.
   */
  async remove(featureId: string, condition?: WriteCondition): Promise<void> {
    // If there is no file, nothing is created, not even a lock.
    if (!(await this.has(featureId))) return assertExpected(featureId, undefined, condition);
    await this.#locked(featureId, "remove", async (lock) => {
      if (condition === undefined) this.#makeDamage(featureId);
      else assertExpected(featureId, this.#read(featureId)?.revision, condition);
      await lock.remove(this.#toPath(featureId));
    });
  }

  /**
   * If a feature's file can't be read, renames it, so that the feature can start again.
   *
   * @throws {UnsupportedFormatError} Another program wrote the file; it was left untouched.
   */
  async setAside(featureId: string): Promise<SetAside | undefined> {
    return this.#locked(featureId, "set aside", async (lock) => {
      const path = this.#toPath(featureId);
      const reason = this.#makeDamage(featureId);
      if (reason === undefined) return undefined;
      const movedTo = `${path}.damaged-${new Date().toISOString().replace(/[:.]/g, "-")}`;
      // Links instead of renaming: if the lock was stolen meanwhile, a rename could move a new file away.
      linkSync(path, movedTo);
      await lock.remove(path);
      return { path, movedTo, reason };
    });
  }

  /** Whether the feature has a file, damaged or not. */
  async has(featureId: string): Promise<boolean> {
    return this.#reading(`look for feature ${JSON.stringify(featureId)}`, () =>
      this.#names().includes(`${toFileName(featureId)}${EXTENSION}`),
    );
  }

  /** Returns the sorted ids of the features that have a file, damaged or not. */
  async features(): Promise<string[]> {
    return this.#reading("list the features", () =>
      this.#names()
        .flatMap((name) => {
          const stem = name.slice(0, -EXTENSION.length);
          const id = parseFileName(stem) ?? this.#findOwner(name);
          return id !== undefined && toFileName(id) === stem ? [id] : [];
        })
        .sort(),
    );
  }

  #toPath(featureId: string): string {
    return join(this.folder, `${toFileName(featureId)}${EXTENSION}`);
  }

  #names(): string[] {
    try {
      return readdirSync(this.folder).filter((name) => name.endsWith(EXTENSION));
    } catch (error) {
      if (readCode(error) === "ENOENT") return [];
      throw error;
    }
  }

  /** Returns the feature of a file whose name is a hash, because the id is too long for a name. */
  #findOwner(name: string): string | undefined {
    try {
      const owner = readJsonObject(join(this.folder, name))?.["feature_id"];
      return typeof owner === "string" ? owner : undefined;
    } catch (error) {
      if (error instanceof UnreadableError) return undefined;
      throw error;
    }
  }

  /**
   * Describes the damage of a feature's file. If the file is readable or missing, returns `undefined`.
   *
   * @throws {UnsupportedFormatError} Another program wrote the file.
   */
  #makeDamage(featureId: string): string | undefined {
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
        `The checkpoint of feature ${JSON.stringify(featureId)} can't be read: ${this.#toPath(featureId)}: ` +
          `${cause.message}. It was left untouched. Repair it (if you edited it, remove its waymark.sha256), delete it, ` +
          "or restart the feature, which sets it aside.",
        { cause },
      );
    }
  }

  /**
   * @throws {UnreadableError}
   * @throws {UnsupportedFormatError} Another program wrote the file.
   */
  #parse(featureId: string): StoredFeature | undefined {
    const path = this.#toPath(featureId);
    let bytes: Buffer | undefined;
    try {
      bytes = readBytes(path);
      return bytes && parseFeature(bytes, featureId);
    } catch (error) {
      if (!(error instanceof UnreadableError) || (bytes && isOurs(bytes, featureId))) throw error;
      throw new UnsupportedFormatError(
        `${path} is no checkpoint of feature ${JSON.stringify(featureId)}: ${error.message}. Nothing in it shows that ` +
          "Waymark wrote it, so it was left untouched. Use another name for the feature, or another folder for Waymark's checkpoints.",
        { cause: error },
      );
    }
  }

  async #locked<Result>(
    featureId: string,
    verb: string,
    work: (lock: LockedFiles) => Promise<Result>,
  ): Promise<Result> {
    try {
      return await withLockedFile(this.#toPath(featureId), LOCK_NAME, work);
    } catch (error) {
      throw storageFailure(error, { doing: `${verb} feature ${JSON.stringify(featureId)}`, path: this.folder });
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

/** @throws {UnreadableError} The bytes are no checkpoint of the feature. */
function parseFeature(bytes: Uint8Array, featureId: string): StoredFeature {
  const file = parseJsonObject(bytes);
  const { waymark, ...fields } = file;
  const { sha256 = undefined, ...run } = isRecord(waymark) ? waymark : {};
  const content = isRecord(waymark) ? toContent(fields, run) : file;
  const revision = makeRevision(content);
  if (sha256 !== undefined && sha256 !== revision) throw new UnreadableError("it fails its checksum: it was changed");
  const { success, data, error } = OneshotCheckpointSchema.safeParse(content);
  if (!success) {
    const missing = REQUIRED_KEYS.filter((key) => !(key in file));
    const reason = missing.length === 0 ? describeIssues(error) : `it has no ${missing.join(", ")}`;
    throw new UnreadableError(reason, { cause: error });
  }
  if (data.featureId !== featureId) {
    throw new UnreadableError(`it is the checkpoint of feature ${JSON.stringify(data.featureId)}`);
  }
  return { state: data, revision };
}

const REQUIRED_KEYS = OneshotFileSchema.omit({ waymark: true }).keyof().options;

/**
 * Whether damaged bytes were a feature's checkpoint. If they were, they may be set aside or removed. Only Waymark
 * writes a `waymark` key. JSON that is cut short may have lost this key, so it is judged by its beginning, which is the
 * same in the spec's own program.
 */
function isOurs(bytes: Uint8Array, featureId: string): boolean {
  try {
    return isRecord(parseJsonObject(bytes)["waymark"]);
  } catch (error) {
    if (!(error instanceof UnreadableError)) throw error;
    if (error instanceof NotAnObjectError) return false;
  }
  // After a power cut, the end of a file may be zeros.
  const text = withoutSpace(new TextDecoder().decode(bytes).replaceAll("\0", ""));
  const beginning = withoutSpace(`{"feature_id":${JSON.stringify(featureId)},"agent_id":`);
  return text.startsWith(beginning) || beginning.startsWith(text) || text.includes('"waymark":{');
}

function withoutSpace(text: string): string {
  return text.replace(/\s+/g, "");
}

/** Returns a file's content without its checksum. */
function toContent(fields: object, run: object = {}): object {
  return Object.keys(run).length === 0 ? fields : { ...fields, waymark: run };
}

function makeRevision(content: object): string {
  return hash("sha256", JSON.stringify(content), "hex");
}

/** @throws {CheckpointConflictError} */
function assertExpected(featureId: string, revision: string | undefined, condition: WriteCondition | undefined): void {
  if (condition === undefined || condition.revision === revision) return;
  const found = revision === undefined ? "is gone" : "has changed since this program read it";
  throw new CheckpointConflictError(
    `The checkpoint of feature ${JSON.stringify(featureId)} ${found}: another program wrote or removed it. Nothing was changed. Read it again.`,
  );
}
