import { join } from "node:path";
import {
  type AppendCondition,
  type CheckedRecord,
  type CheckpointQuery,
  type CorruptRecord,
  checkExpected,
  inRange,
  isCorrupt,
  matchesQuery,
  nextSequence,
  type RepairStep,
  type StorageAdapter,
  type StorageFinding,
  type StorageRepair,
  type StorageVerification,
  type StorageWarning,
  type TaskQuery,
} from "../../src/contract/adapter.js";
import {
  type CheckpointDraft,
  type CheckpointSummary,
  type Payload,
  type StatusChange,
  type StoredCheckpoint,
  type TaskSummary,
  withStatus,
} from "../../src/contract/checkpoint.js";
import { CheckpointFolder, type Found } from "./checkpoint-folder.js";
import { syncFolder } from "./durable-write.js";
import { FolderStore, type FolderStoreOptions } from "./folder-store.js";
import { LOCK_NAME, repairFolders, verifyFolders } from "./json-file-care.js";
import {
  type CheckpointFile,
  checkpointFileName,
  NUMBERING_FILE,
  parseCheckpointFileName,
  renderCheckpoint,
  renderNumbering,
} from "./json-file-format.js";
import { isCounted } from "./numbering-recovery.js";
import { RecentMap } from "./recent-map.js";
import { type EmbeddedRecord, embedDraft, embedPayload, sequenceOfIntact } from "./sealed-record.js";
import { nameOf } from "./task-folder.js";
import { TimeSlices } from "./time-slices.js";

/** The options of {@link JsonFileAdapter}. */
export interface JsonFileAdapterOptions extends FolderStoreOptions {}

/**
 * One JSON file per checkpoint, in one folder per task: for people who read, search and commit their checkpoints.
 *
 * ```
 * <path>/build-42/000000000007-a1.json
 * ```
 *
 * Saves survive a killed process and a power cut. Any number of processes of one machine may use one root folder. Files have mode 0600, folders 0700.
 */
export class JsonFileAdapter implements StorageAdapter {
  readonly name = "json-file";
  readonly capabilities = { durable: true, multiProcess: true } as const;
  readonly #store: FolderStore;
  /** The newest file of each task, where this adapter wrote it: then the folder needn't be checked for another owner. */
  readonly #newest = new RecentMap<string>();

  /** @throws {TypeError | RangeError} A wrong option. */
  constructor(options: JsonFileAdapterOptions) {
    this.#store = new FolderStore(this.name, options, { name: LOCK_NAME, leavesFolder: true });
  }

  async append(draft: CheckpointDraft, condition?: AppendCondition): Promise<number> {
    const { taskId, id } = draft;
    const embedded = embedDraft(draft);
    const render = (sequence: number) => ({ sequence, content: renderCheckpoint(embedded(sequence)) });
    return this.#store.write({
      taskId,
      verb: "save to",
      claim: "file",
      work: async (lock, path) => {
        const known = this.#newest.get(taskId);
        // If nobody else wrote meanwhile, which listing the folder tells.
        const likely = known === undefined ? undefined : render(parseCheckpointFileName(known).sequence + 1);
        if (likely) lock.begin(likely.content);
        const folder = new CheckpointFolder(path, taskId);
        if (folder.newestName !== known) folder.assertOwner();
        const file = folder.find(id);
        const stored = file && (await folder.readToChange(file));
        if (file && stored) {
          const sequence = sequenceOfIntact(stored, draft, folder.pathOf(file));
          // Whoever stored it may have been killed, or failed, before it was durable. Now it will be.
          await lock.write(folder.pathOf(file), renderCheckpoint(stored), { firstInFolder: true });
          return sequence;
        }

        const { newestSequence } = folder;
        const kept = await folder.keptSequence();
        const lastSequence = Math.max(
          folder.newestName === known ? newestSequence : folder.lastCounted(kept),
          folder.renamedSequence,
          kept,
        );
        const sequence = nextSequence(taskId, { newestSequence, lastSequence }, condition);
        const { content } = likely?.sequence === sequence ? likely : render(sequence);
        const name = checkpointFileName(sequence, id);
        await lock.write(join(path, name), content, { firstInFolder: lastSequence === 0 });
        this.#newest.set(taskId, name);
        return sequence;
      },
    });
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.#store.read(taskId, async () => {
      const folder = this.#folder(taskId);
      const file = folder?.find(id);
      return folder && file && folder.read(file);
    });
  }

  read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord> {
    const items = this.#select(query, (folder, file) => folder.read(file));
    return this.#store.iterate(items, query.taskId);
  }

  list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord> {
    const items = this.#select(query, (folder, file) => folder.readSummary(file));
    return this.#store.iterate(items, query.taskId);
  }

  tasks(query: TaskQuery): AsyncIterable<TaskSummary | CorruptRecord> {
    return this.#store.tasks(query, (path, taskId) => new CheckpointFolder(path, taskId).contents());
  }

  async setStatus(taskId: string, id: string, change: StatusChange, condition?: AppendCondition): Promise<boolean> {
    const wanted = structuredClone(change);
    return this.#changeFile("change a status of", taskId, id, (stored, { newestSequence }) => {
      checkExpected(taskId, newestSequence, condition);
      // The state stays to the byte, and its digest with it: damage to it stays visible.
      return { ...stored, head: withStatus(stored.head, wanted) };
    });
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    const embedded = embedPayload(payload);
    return this.#changeFile("replace a payload of", taskId, id, ({ head }) =>
      head.payload.sha256 === expectedSha256 ? embedded(head) : undefined,
    );
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    const names = ids === "all" ? undefined : new Set(ids.map(nameOf));
    let removed = 0;
    return this.#store.write({
      taskId,
      verb: "remove from",
      claim: "folder",
      absent: () => {
        checkExpected(taskId, 0, condition);
        return 0;
      },
      removesTask: names === undefined,
      work: async (lock, path) => {
        const folder = new CheckpointFolder(path, taskId);
        folder.assertOwner();
        const { newestSequence } = folder;
        // Where the lock was stolen halfway, the condition held when the first one went: the rest follows.
        if (removed === 0) checkExpected(taskId, newestSequence, condition);
        const doomed = folder.files().filter(({ idName }) => names === undefined || names.has(idName));
        const last = doomed.at(-1)?.sequence ?? 0;
        // One that stays above them keeps their sequences by its name, unless it is junk.
        const isKept = last < newestSequence && isCounted(newestSequence, last);
        if (names && last > 0 && !isKept) {
          const kept = await folder.keptSequence();
          const lastSequence = folder.lastCounted(kept);
          if (lastSequence > kept && doomed.some(({ sequence }) => sequence === lastSequence)) {
            // First the sequence is kept, then its checkpoint is removed.
            const content = renderNumbering({ taskId, lastSequence });
            await lock.write(join(path, NUMBERING_FILE), content, { firstInFolder: false });
          }
        }

        const slices = new TimeSlices();
        for (const file of doomed) {
          if (lock.discard(folder.pathOf(file))) removed += 1;
          if (slices.due) await slices.pause();
        }
        // It goes last: as long as a checkpoint is there, so is the numbering.
        if (names === undefined && folder.hasNumbering) lock.discard(join(path, NUMBERING_FILE));
        // Also where nothing was left: whoever removed it may have been killed, or failed, before it was durable.
        await syncFolder(path);
        return removed;
      },
    });
  }

  warnings(): Promise<readonly StorageWarning[]> {
    return this.#store.warnings();
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  verify({ quick }: StorageVerification): AsyncGenerator<StorageFinding | CheckedRecord, void, void> {
    return this.#store.iterate(verifyFolders(this.#store.root, quick));
  }

  repair(options: StorageRepair): AsyncGenerator<RepairStep, void, void> {
    return this.#store.iterate(repairFolders(this.#store, options));
  }

  #folder(taskId: string): CheckpointFolder | undefined {
    const path = this.#store.existingFolder(taskId);
    return path === undefined ? undefined : new CheckpointFolder(path, taskId);
  }

  /** Writes what `change` makes of a checkpoint in its place. False where there is none, or `change` gives nothing. */
  async #changeFile(
    verb: string,
    taskId: string,
    id: string,
    change: (stored: EmbeddedRecord, folder: CheckpointFolder) => EmbeddedRecord | undefined,
  ): Promise<boolean> {
    return this.#store.write({
      taskId,
      verb,
      claim: "file",
      absent: () => false,
      work: async (lock, path) => {
        const folder = new CheckpointFolder(path, taskId);
        const file = folder.find(id);
        const stored = file && (await folder.readToChange(file));
        const changed = stored && change(stored, folder);
        if (file === undefined || changed === undefined) {
          // Whoever replaced or removed it may have been killed, or failed, before that was durable.
          await syncFolder(path);
          return false;
        }
        await lock.write(folder.pathOf(file), renderCheckpoint(changed), { firstInFolder: false });
        return true;
      },
    });
  }

  /** Names alone decide on range, order and `skip`, so that only what is asked for is opened. */
  async *#select<Item extends CheckpointSummary>(
    query: CheckpointQuery,
    open: (folder: CheckpointFolder, file: CheckpointFile) => Found<Item> | Promise<Found<Item>>,
  ): AsyncGenerator<Item | CorruptRecord, void, void> {
    const folder = this.#folder(query.taskId);
    if (folder === undefined) return;
    const files = folder.files().filter(({ sequence }) => inRange(sequence, query));
    if (query.order === "newest") files.reverse();
    let left = query.limit ?? Number.POSITIVE_INFINITY;
    const slices = new TimeSlices();
    for (const file of files.slice(query.skip ?? 0)) {
      if (left === 0) return;
      const found = await open(folder, file);
      if (found && isCorrupt(found)) yield found;
      else if (found && matchesQuery(found, query)) {
        left -= 1;
        yield found;
      }
      if (slices.due) await slices.pause();
    }
  }
}
