import { isDeepStrictEqual } from "node:util";
import { CheckpointCorruptError, CheckpointManager, type CheckpointManagerOptions } from "waymark";
import type { WaymarkSaver, WaymarkSaverOptions } from "waymark/langgraph";
import {
  CHANNELS,
  checkpointsTask,
  type MarkedWritesRecord,
  type StoredValue,
  summaryOfWrites,
  type Thread,
  type WritesRecord,
  writesTask,
} from "waymark/langgraph/records";
import type { Progress } from "../progress.js";
import {
  loadPackage,
  type Source,
  type SourceCheckpoint,
  type SourceWrite,
  TypedBytes,
  UnreadableError,
} from "./source.js";

/** The result of an import, after both sides were compared. */
export interface ImportResult {
  threads: number;
  checkpoints: number;
  /** Those that this run stored. */
  imported: number;
  /** Those that are the same on both sides, with their writes. */
  identical: number;
  readonly different: Difference[];
}

interface Difference extends Thread {
  readonly id: string;
  readonly reason: string;
}

/**
 * Stores the source's threads as a WaymarkSaver would have, then reads both and compares them. Records that are there
 * already stay, so it may be stopped and run again.
 */
export async function importThreads(
  source: Source,
  target: Pick<CheckpointManagerOptions, "storage" | "transforms">,
  startProgress: (checkpoints: number) => Promise<Progress>,
): Promise<ImportResult> {
  const { WaymarkSaver } = await loadPackage("@langchain/langgraph-checkpoint", () => import("waymark/langgraph"));
  let nowMs = 0;
  const options = { ...target, ownsStorage: false, clock: () => nowMs };
  const manager = new CheckpointManager(options);
  // Branches are stored one after the other.
  const saver = new WaymarkSaver({ ...options, serde: AS_STORED, exclusive: false });

  const all: { readonly thread: Thread; readonly ids: readonly string[] }[] = [];
  for (const thread of await source.threads()) {
    // In the order of their making: a value that a checkpoint has from an older one is stored once.
    all.push({ thread, ids: (await source.ids(thread)).toSorted() });
  }
  const checkpoints = all.reduce((sum, { ids }) => sum + ids.length, 0);
  const threads = new Set(all.map(({ thread }) => thread.threadId)).size;
  const result: ImportResult = { threads, checkpoints, imported: 0, identical: 0, different: [] };
  const progress = await startProgress(2 * checkpoints);
  try {
    for (const { thread, ids } of all) {
      const present = new Set((await manager.list(checkpointsTask(thread))).map(({ id }) => id));
      let last: SourceCheckpoint | undefined;
      for (const id of ids) {
        const found = await readableOf(source, thread, id);
        progress.advance();
        if (found === undefined) continue;
        nowMs = timeOf(found);
        if (!present.has(id)) {
          const { parentId = "", checkpoint, metadata } = found;
          const parent = last?.checkpoint.id === parentId ? last : await readableOf(source, thread, parentId);
          await saver.put(configOf(thread, parentId), checkpoint, metadata, changedVersions(found, parent));
          result.imported += 1;
        }
        await addWrites(manager, writesTask(thread, id), found.writes);
        last = found;
      }
    }
    for (const { thread, ids } of all) {
      for (const id of ids) {
        const reason = await differenceOf(source, saver, thread, id);
        if (reason === undefined) result.identical += 1;
        else result.different.push({ ...thread, id, reason });
        progress.advance();
      }
    }
  } finally {
    progress.stop();
  }
  return result;
}

/** Values stay as they are stored; nothing in them is made. */
const AS_STORED: NonNullable<WaymarkSaverOptions["serde"]> = {
  dumpsTyped: async (value) =>
    value instanceof TypedBytes ? [value.type, value.bytes] : ["json", new TextEncoder().encode(JSON.stringify(value))],
  loadsTyped: async (type, data) => {
    if (type === "json") return JSON.parse(typeof data === "string" ? data : new TextDecoder().decode(data));
    return new TypedBytes(type, Buffer.from(data));
  },
};

function configOf({ threadId, namespace }: Thread, id: string) {
  return { configurable: { thread_id: threadId, checkpoint_ns: namespace, checkpoint_id: id } };
}

/** `undefined` if it isn't there or can't be read: the comparison says so. */
async function readableOf(source: Source, thread: Thread, id: string): Promise<SourceCheckpoint | undefined> {
  try {
    return id === "" ? undefined : await source.read(thread, id);
  } catch (error) {
    if (error instanceof UnreadableError) return undefined;
    throw error;
  }
}

function timeOf({ checkpoint: { ts } }: SourceCheckpoint): number {
  const atMs = Date.parse(ts);
  return Number.isNaN(atMs) ? Date.now() : atMs;
}

/**
 * The channels whose values can't be had from the parent, with their versions. Mostly the versions tell; but theirs may have
 * lost a value, and a SqliteSaver keeps those of channels that were never written, which have no version.
 */
function changedVersions({ checkpoint }: SourceCheckpoint, parent: SourceCheckpoint | undefined) {
  const { channel_values: values, channel_versions: versions } = checkpoint;
  const before = parent?.checkpoint;
  const isChanged = (channel: string) =>
    versions[channel] === undefined ||
    versions[channel] !== before?.channel_versions[channel] ||
    !isDeepStrictEqual(values[channel], before.channel_values[channel]);
  const changed = Object.keys({ ...versions, ...values }).filter(isChanged);
  return Object.fromEntries(changed.map((channel) => [channel, versions[channel] ?? 0]));
}

/** Adds the writes that aren't there: a record for each of LangGraph's tasks. */
async function addWrites(manager: CheckpointManager, taskId: string, writes: readonly SourceWrite[]): Promise<void> {
  if (writes.length === 0) return;
  const keyOf = (its: string, index: number) => JSON.stringify([its, index]);
  const present = new Set<string>();
  for await (const { state } of manager.history(taskId)) {
    // A record that the saver, or an earlier import, has stored; its seal has been checked.
    const record = state as MarkedWritesRecord;
    for (const { index } of record.writes) present.add(keyOf(record.taskId, index));
  }
  const missing = writes.filter((write) => !present.has(keyOf(write.taskId, write.index)));
  const isAnswer = (its: string) =>
    missing.every(({ taskId: task, channel }) => task !== its || channel === CHANNELS.resume);
  const tasks = [...new Set(missing.map((write) => write.taskId))];
  // Answers before what was asked after them.
  for (const its of [...tasks.filter(isAnswer), ...tasks.filter((task) => !isAnswer(task))]) {
    const own = missing.filter((write) => write.taskId === its);
    const record: WritesRecord = {
      taskId: its,
      // Their savers for JavaScript don't keep it.
      taskPath: "",
      writes: own.map(({ channel, index, value }) => ({ channel, index, value: storedForm(value) })),
    };
    const channels = own.map(({ channel }) => channel);
    await manager.save(taskId, record, summaryOfWrites(its, channels));
  }
}

function storedForm(value: unknown): StoredValue {
  return value instanceof TypedBytes ? { type: value.type, bytes: value.bytes } : { json: value };
}

/** Reads a checkpoint on both sides. `undefined` if they are the same. */
async function differenceOf(
  source: Source,
  saver: WaymarkSaver,
  thread: Thread,
  id: string,
): Promise<string | undefined> {
  try {
    const [found, tuple] = [await source.read(thread, id), await saver.getTuple(configOf(thread, id))];
    if (found === undefined || tuple === undefined) return "it is missing";
    const { pendingWrites = [], parentConfig } = tuple;
    const parts = {
      content: [comparable(found.checkpoint), comparable(tuple.checkpoint)],
      metadata: [found.metadata, tuple.metadata],
      parent: [found.parentId, parentConfig?.configurable?.["checkpoint_id"]],
      writes: [
        asTexts(found.writes.map(({ taskId, channel, value }) => [taskId, channel, value])),
        asTexts(pendingWrites),
      ],
    };
    const different = Object.entries(parts).filter(([, [one, other]]) => !isDeepStrictEqual(one, other));
    return different.length === 0 ? undefined : `it has other ${different.map(([part]) => part).join(" and ")}`;
  } catch (error) {
    if (error instanceof UnreadableError) return `it can't be read: ${error.message}`;
    if (error instanceof CheckpointCorruptError) return error.message;
    throw error;
  }
}

/** Before version 4 the sends are in the parent's writes, and a saver adds them when it reads. */
function comparable(checkpoint: Parameters<WaymarkSaver["put"]>[1]) {
  const { v, ts, id, channel_values, channel_versions, versions_seen } = checkpoint;
  const withoutSends = (parts: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(Object.entries(parts).filter(([channel]) => v >= 4 || channel !== CHANNELS.tasks));
  return { v, ts, id, values: withoutSends(channel_values), versions: withoutSends(channel_versions), versions_seen };
}

/** In an order of their own: a database may sort otherwise. */
function asTexts(writes: readonly (readonly unknown[])[]): string[] {
  return writes.map((write) => JSON.stringify(write)).sort();
}
