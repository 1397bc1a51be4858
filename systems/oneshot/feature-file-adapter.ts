import { hash } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { syncFolder } from "../../adapters/files/durable-write.js";
import { FolderStore, type FolderStoreOptions } from "../../adapters/files/folder-store.js";
import { embedDraft, storedCheckpoint } from "../../adapters/files/sealed-record.js";
import { type SetAside, setAside } from "../../adapters/files/set-aside.js";
import { codeOf } from "../../adapters/files/storage-failure.js";
import { readStored, UnreadableError } from "../../adapters/files/stored-file.js";
import { idOf, isHashedName, nameOf } from "../../adapters/files/task-folder.js";
import { assertSameTask } from "../../adapters/files/task-scan.js";
import {
  type AppendCondition,
  type CheckpointQuery,
  type CorruptRecord,
  checkExpected,
  isCorrupt,
  matchesQuery,
  nextSequence,
  type StorageAdapter,
  type StorageWarning,
  sequenceOfSame,
  type TaskQuery,
} from "../../src/contract/adapter.js";
import {
  type CheckpointDraft,
  type CheckpointSummary,
  compareTaskIds,
  type StoredCheckpoint,
  summaryOf,
  type TaskSummary,
} from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError, UnsupportedOperationError } from "../../src/contract/errors.js";
import { parseFeatureFile, renderFeatureFile } from "./feature-file.js";

const EXTENSION = ".json";
/** A lock that is stolen gets its thief's claim as the end of its name, and 255 bytes are all a name may have. */
const MAX_LOCK_STEM = 60;

/**
 * One file per feature, side by side in one folder, as the oneshot spec has it. The file has room for one checkpoint:
 * a save takes the place of the one before it.
 *
 * Saves survive a killed process and a power cut, and any number of processes of one machine may use the folder. It is
 * for these files alone and not for any task: it keeps no history, takes no state of another schema, and has no
 * `setStatus`, since a status is part of the state here. The rest of the contract holds.
 */
export class FeatureFileAdapter implements StorageAdapter {
  readonly name = "oneshot";
  readonly capabilities = { durable: true, multiProcess: true } as const;
  readonly #root: string;
  readonly #store: FolderStore;

  /** @throws {TypeError | RangeError} A wrong option. */
  constructor(options: FolderStoreOptions) {
    this.#store = new FolderStore(this.name, options, { name: lockNameOf, leavesFolder: false });
    this.#root = resolve(options.path);
  }

  /** The file of a feature, be it there or not. */
  pathOf(featureId: string): string {
    const path = join(this.#root, `${nameOf(featureId)}${EXTENSION}`);
    const asIs = join(this.#root, `${featureId}${EXTENSION}`);
    return isPlainName(featureId) && !existsSync(path) && existsSync(asIs) ? asIs : path;
  }

  /** The features that have a file, be it damaged or not, by id. */
  async features(): Promise<string[]> {
    const found = new Set<string>();
    for await (const id of this.#store.iterate(this.#featureIds())) found.add(id);
    return [...found].sort(compareTaskIds);
  }

  async append(draft: CheckpointDraft, condition?: AppendCondition): Promise<number> {
    const { taskId, id, payload } = draft;
    if (payload.encoding !== "json") {
      throw new UnsupportedOperationError(`A feature's file holds plain JSON, and no ${payload.encoding}.`);
    }
    const embedded = embedDraft(draft);
    return this.#store.write({
      taskId,
      verb: "save to",
      claim: "file",
      work: async (lock) => {
        const path = this.pathOf(taskId);
        const existing = intact(await this.#read(taskId), path);
        if (existing?.id === id) {
          const sequence = sequenceOfSame({ sequence: existing.sequence, sha256: existing.payload.sha256 }, draft);
          // Whoever stored it may have been killed before it was durable. Now it will be.
          await lock.write(path, renderFeatureFile(embedded(sequence)), { firstInFolder: true });
          return sequence;
        }
        const last = existing?.sequence ?? 0;
        const sequence = nextSequence(taskId, { newestSequence: last, lastSequence: last }, condition);
        await lock.write(path, renderFeatureFile(embedded(sequence)), { firstInFolder: existing === undefined });
        return sequence;
      },
    });
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    const found = await this.#store.read(taskId, () => this.#read(taskId));
    return found === undefined || isCorrupt(found) || found.id === id ? found : undefined;
  }

  read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord> {
    return this.#store.iterate(
      this.#select(query, (record) => record),
      query.taskId,
    );
  }

  list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord> {
    return this.#store.iterate(this.#select(query, summaryOf), query.taskId);
  }

  tasks(query: TaskQuery): AsyncIterable<TaskSummary | CorruptRecord> {
    return this.#store.iterate(this.#tasks(query));
  }

  setStatus(): Promise<boolean> {
    return Promise.reject(
      new UnsupportedOperationError("A feature's status is part of its state: save a checkpoint that has the new one."),
    );
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    const absent = (): number => {
      checkExpected(taskId, 0, condition);
      return 0;
    };
    return this.#store.write({
      taskId,
      verb: "remove",
      claim: "folder",
      absent,
      removesTask: true,
      work: async (lock) => {
        const found = await this.#read(taskId);
        if (found === undefined) return absent();
        if (isCorrupt(found)) {
          if (ids !== "all") return 0;
        } else {
          checkExpected(taskId, found.sequence, condition);
          if (ids !== "all" && !ids.includes(found.id)) return 0;
        }
        if (!lock.discard(this.pathOf(taskId))) return 0;
        await syncFolder(this.#root);
        return 1;
      },
    });
  }

  /**
   * Renames a feature's file that can't be read, so that the feature can be begun anew; `undefined` where there is none,
   * or it can be read.
   */
  async setAside(featureId: string): Promise<SetAside | undefined> {
    return this.#store.write<SetAside | undefined>({
      taskId: featureId,
      verb: "set aside",
      claim: "folder",
      absent: () => undefined,
      work: async (lock) => {
        const found = await this.#read(featureId);
        return found && isCorrupt(found) ? setAside(lock, this.pathOf(featureId), found.reason) : undefined;
      },
    });
  }

  warnings(): Promise<readonly StorageWarning[]> {
    return this.#store.warnings();
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async #read(taskId: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    const path = this.pathOf(taskId);
    const found = await readFeature(path);
    if (found === undefined) return undefined;
    if (isCorrupt(found)) return { ...found, taskId };
    assertSameTask(taskId, found.taskId, path);
    return found;
  }

  async *#featureIds(): AsyncGenerator<string, void, void> {
    for (const name of fileNames(this.#root)) {
      const stem = name.slice(0, -EXTENSION.length);
      const owner = isHashedName(stem) ? await this.#ownerOf(join(this.#root, name)) : undefined;
      const id = idOf(stem) ?? owner ?? (isPlainName(stem) ? stem : undefined);
      if (id !== undefined) yield id;
    }
  }

  async #ownerOf(path: string): Promise<string | undefined> {
    const found = await readFeature(path);
    return found === undefined || isCorrupt(found) ? undefined : found.taskId;
  }

  async *#select<Item extends CheckpointSummary>(
    query: CheckpointQuery,
    open: (record: StoredCheckpoint) => Item,
  ): AsyncGenerator<Item | CorruptRecord, void, void> {
    const found = await this.#read(query.taskId);
    if (found === undefined) return;
    if (isCorrupt(found)) yield found;
    else if (matchesQuery(found, query) && !query.skip && query.limit !== 0) yield open(found);
  }

  async *#tasks(query: TaskQuery): AsyncGenerator<TaskSummary | CorruptRecord, void, void> {
    const { prefix = "", after, order, status, limit } = query;
    const tasks: TaskSummary[] = [];
    for (const taskId of await this.features()) {
      if (!taskId.startsWith(prefix) || (after !== undefined && compareTaskIds(taskId, after) <= 0)) continue;
      const found = await this.#read(taskId);
      if (found === undefined) continue;
      if (isCorrupt(found)) yield found;
      else if (status?.includes(found.status) ?? true) tasks.push({ taskId, count: 1, newest: summaryOf(found) });
    }
    if (order === "recent") tasks.sort((a, b) => (a.newest.createdAt < b.newest.createdAt ? 1 : -1));
    yield* tasks.slice(0, limit);
  }
}

/**
 * Whether the spec's own program has a file for the feature that is named as the feature is, and that is no other's:
 * it escapes nothing.
 */
function isPlainName(featureId: string): boolean {
  return /^[^./\\%~\p{Cc}][^/\\%~\p{Cc}]{0,99}$/u.test(featureId);
}

/** No feature's file begins with a dot or has a plus in its name, so lock and file are never taken for each other. */
function lockNameOf(featureId: string): string {
  const name = nameOf(featureId);
  return `.${name.length <= MAX_LOCK_STEM ? name : hash("sha256", name, "hex").slice(0, 32)}+lock`;
}

async function readFeature(path: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
  try {
    const bytes = await readStored(path);
    return bytes && storedCheckpoint(parseFeatureFile(bytes));
  } catch (error) {
    if (!(error instanceof UnreadableError)) throw error;
    return { corrupt: true, location: path, reason: error.message, cause: error.cause };
  }
}

/** @throws {CheckpointCorruptError} Nothing is written over what can't be read. */
function intact(found: StoredCheckpoint | CorruptRecord | undefined, path: string): StoredCheckpoint | undefined {
  if (found === undefined || !isCorrupt(found)) return found;
  throw new CheckpointCorruptError(
    `Nothing was saved: ${path} can't be read: ${found.reason}. It was left untouched; mend it, or remove it.`,
    { cause: found.cause },
  );
}

function fileNames(root: string): string[] {
  try {
    return readdirSync(root).filter((name) => name.endsWith(EXTENSION) && !name.startsWith("."));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}
