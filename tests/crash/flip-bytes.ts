// Changes single bytes of a small store, or cuts the store at them, and counts the outcomes.
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import Database from "better-sqlite3";
import {
  type Checkpoint,
  CheckpointError,
  CheckpointManager,
  type CheckpointSummary,
  gzip,
  type StorageAdapter,
  type TaskRecord,
  type TaskSummary,
} from "waymark";
import { event, record } from "../../conformance/records.js";
import { RECORD_KINDS } from "../../src/contract/log.js";
import { STRIDE_FACTOR } from "./extent.js";
import { openAdapter } from "./open-adapter.mjs";
import type { StoreKind } from "./operations.js";
import { PLACE } from "./place.js";

/** The outcomes for a user of a damaged store. */
export type Outcome =
  /** Everything saved is there. */
  | "intact"
  /**
   * Everything returned was saved, and each missing checkpoint was reported: by a `corrupt` event, or by a typed error.
   */
  | "reported"
  /** Something is missing without a report from the reads, but `verify` finds it. Never on files. */
  | "found by verify"
  /**
   * Everything returned was saved, but the newest may be missing without a report: SQLite's rule for a log's torn tail.
   */
  | "torn tail"
  /** A state that was never saved, a loss that `verify` doesn't find, an untyped error, or a lost save. */
  | "wrong";

/** How many times each outcome occurred, and descriptions of wrong outcomes. */
export interface FlipCounts extends Record<Outcome, number> {
  readonly storage: string;
  readonly bytes: number;
  readonly examples: string[];
}

export interface FlipOptions {
  /** The distance between damaged bytes; 1 damages every byte. */
  readonly stride: number;
  /** The first damaged byte, so that runs with a stride damage different bytes. */
  readonly offset?: number;
}

/** The damaged storages. The first ones are closed stores; `sqlite's log` is the log of a killed process. */
export const FLIPPED = ["json-file", "task-file", "sqlite", "sqlite's log"] as const;
export type Flipped = (typeof FLIPPED)[number];

/** Damages every `stride`th byte of every file in turn, in three ways, and counts what a fresh manager finds. */
export async function flipBytes(storage: Flipped, { stride, offset = 0 }: FlipOptions): Promise<FlipCounts> {
  const folder = mkdtempSync(join(PLACE, "waymark-flip-"));
  try {
    const intact = join(folder, "intact");
    const expected = await makeStore(storage, intact);
    const counts = { storage, bytes: 0, examples: [], ...NONE };
    for (const name of filesIn(intact, storage))
      await flipFile({ storage, folder, intact, name, expected, stride, offset }, counts);
    return counts;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const NONE = { intact: 0, reported: 0, "found by verify": 0, "torn tail": 0, wrong: 0 } satisfies Record<
  Outcome,
  number
>;
const DAMAGES = ["flip 0x01", "flip 0xff", "zero", "cut"] as const;
const TASKS = ["alpha", "beta"] as const;
/** The records appended to each task before its saves, if the storage has a log. */
const RECORDS = [record("model", { recordKey: '["model"]' }), event("approve")];
const RECORDS_ALONE = { kinds: RECORD_KINDS };
/** A save is tried only once in this many cases, because it takes longer than all reads. */
const SAVES_EVERY = 8;
const LOG_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const PAGE_STEP = 97 * STRIDE_FACTOR;

/** The results of every reading call on a store. */
interface Seen {
  readonly checkpoints: readonly Checkpoint[];
  readonly summaries: readonly CheckpointSummary[];
  readonly records: readonly TaskRecord[];
  /** Other allowed results: a log without its tail shows the store at an earlier moment. */
  readonly earlier: readonly object[];
}

interface Flip {
  readonly storage: Flipped;
  readonly folder: string;
  readonly intact: string;
  readonly name: string;
  readonly expected: Seen;
  readonly stride: number;
  readonly offset: number;
}

async function flipFile(flip: Flip, counts: FlipCounts & Record<Outcome, number>): Promise<void> {
  const { storage, folder, intact, name, expected, stride, offset } = flip;
  const content = readFileSync(join(intact, name));
  Object.assign(counts, { bytes: counts.bytes + content.length });
  const copy = join(folder, "damaged");
  cpSync(intact, copy, { recursive: true });
  const isLog = name.endsWith("-wal");
  let place = 0;
  for (let at = offset % stride; at < content.length; at += isLog ? logStep(content, at, stride) : stride) {
    const saves = place++ % SAVES_EVERY === 0;
    for (const damage of DAMAGES) {
      // A database cut to nothing looks like a new one (see docs/durability.md).
      if (storage === "sqlite" && damage === "cut" && at <= 1) continue;
      // Only in a log on files may a power cut leave a NUL.
      if (damage === "zero" && !name.endsWith(".jsonl")) continue;
      // SQLite writes to the files that it opens, so the copy must be new.
      if (storage.startsWith("sqlite")) freshen(intact, copy);
      writeFileSync(join(copy, name), damaged(content, at, damage));
      const found = await outcomeOf(storage, copy, expected, saves);
      // A kill may cut the end of a log on files at any byte, so damage there can't be distinguished from a kill.
      const isCut = damage === "cut" || at === content.length - 1;
      const isLogCut = isCut && found.isSilent === true && name.endsWith(".jsonl");
      const outcome = isLogCut ? { ...found, is: "torn tail" as const } : found;
      if (saves && !storage.startsWith("sqlite")) restore(intact, copy);
      counts[outcome.is] += 1;
      if (outcome.is === "wrong" && counts.examples.length < 20) {
        counts.examples.push(`${name}, byte ${at} of ${content.length}, ${damage}: ${outcome.why}`);
      }
    }
  }
  rmSync(copy, { recursive: true });
}

function damaged(content: Buffer, at: number, damage: (typeof DAMAGES)[number]): Buffer {
  if (damage === "cut") return content.subarray(0, at);
  const changed = Buffer.from(content);
  const byte = changed[at] ?? 0;
  changed[at] = { "flip 0x01": byte ^ 0x01, "flip 0xff": byte ^ 0xff, zero: 0 }[damage];
  return changed;
}

/**
 * A frame's checksum covers its whole page, so some bytes of each page are enough. Of headers, all bytes are damaged.
 */
function logStep(log: Buffer, at: number, stride: number): number {
  const pageBytes = log.readUInt32BE(8);
  const inFrame = at < LOG_HEADER_BYTES ? 0 : (at - LOG_HEADER_BYTES) % (FRAME_HEADER_BYTES + pageBytes);
  return inFrame < FRAME_HEADER_BYTES ? stride : Math.min(PAGE_STEP, FRAME_HEADER_BYTES + pageBytes - inFrame);
}

function freshen(intact: string, copy: string): void {
  for (const name of ["checkpoints.db-wal", "checkpoints.db-shm"]) rmSync(join(copy, name), { force: true });
  for (const name of ["checkpoints.db", "checkpoints.db-wal"]) {
    if (existsSync(join(intact, name))) writeFileSync(join(copy, name), readFileSync(join(intact, name)));
  }
}

function restore(intact: string, copy: string): void {
  rmSync(copy, { recursive: true });
  cpSync(intact, copy, { recursive: true });
}

/** Makes two tasks with two records and three checkpoints each, a removed newest checkpoint, and a changed status. */
async function makeStore(storage: Flipped, folder: string): Promise<Seen> {
  const adapter = await openAdapter(kindOf(storage), folder);
  const manager = new CheckpointManager({ storage: adapter, transforms: [gzip()] });
  const plain = new CheckpointManager({ storage: adapter, ownsStorage: false });
  for (const task of TASKS) await adapter.log?.append(task, RECORDS);
  for (const step of [1, 2, 3]) {
    const options = { stage: `s${step}`, metadata: { step } };
    await plain.save("alpha", { step, at: new Date(step), text: "wäy".repeat(step) }, options);
    await manager.save("beta", { step, text: "wäy".repeat(step) }, options);
  }
  const { id } = await manager.save("beta", { gone: true });
  const before = await see(manager, adapter.log);
  await manager.remove("beta", id);
  await manager.fail("beta", "the gate is shut");
  const seen = await see(manager, adapter.log);
  if (storage !== "sqlite's log") {
    await manager.close();
    if (storage === "sqlite") makePagesSmall(join(folder, "checkpoints.db"));
    return seen;
  }
  // Copies the files as a kill leaves them, with the last saves only in the log.
  const living = `${folder}-living`;
  cpSync(folder, living, { recursive: true });
  await manager.close();
  restore(living, folder);
  rmSync(living, { recursive: true });
  return { ...seen, earlier: [...before.checkpoints, ...before.summaries, ...before.records] };
}

/** Makes a database's pages small, so that few bytes are unused. */
function makePagesSmall(path: string): void {
  const database = new Database(path);
  database.exec("PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM; PRAGMA journal_mode = WAL");
  database.close();
}

async function open(storage: Flipped, folder: string): Promise<CheckpointManager> {
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  return new CheckpointManager({ storage: await openAdapter(kindOf(storage), folder), transforms: [gzip()], logger });
}

function kindOf(storage: Flipped): StoreKind {
  return storage === "sqlite's log" ? "sqlite" : storage;
}

async function see(manager: CheckpointManager, log: StorageAdapter["log"]): Promise<Seen> {
  const checkpoints: Checkpoint[] = [];
  const summaries: CheckpointSummary[] = [];
  const records: TaskRecord[] = [];
  for (const task of TASKS) {
    for await (const checkpoint of manager.history(task)) checkpoints.push(checkpoint);
    summaries.push(...(await manager.list(task)));
    if (log) records.push(...(await collect(manager.records(task, RECORDS_ALONE))));
  }
  return { checkpoints, summaries, records, earlier: [] };
}

interface Judged {
  readonly is: Outcome;
  /** Whether something is missing that no call reported. */
  readonly isSilent?: boolean;
  readonly why?: string;
}

async function outcomeOf(storage: Flipped, folder: string, expected: Seen, saves: boolean): Promise<Judged> {
  const manager = await open(storage, folder);
  try {
    const reads = await judgeReads(manager, expected);
    const judged = reads.is === "torn tail" ? await excuse(storage, manager, reads) : reads;
    const saved = saves && judged.is !== "wrong" ? await saveAnew(storage, manager, expected) : undefined;
    return saved?.is === "torn tail" ? await excuse(storage, manager, saved) : (saved ?? judged);
  } catch (error) {
    return { is: "wrong", why: String(error) };
  } finally {
    await manager.close();
  }
}

/**
 * Judges losses that no call reported. SQLite's log may lose its tail, and `verify` must find a database's losses.
 * Files have no unreported losses.
 */
async function excuse(storage: Flipped, manager: CheckpointManager, judged: Judged): Promise<Judged> {
  if (!storage.startsWith("sqlite")) return { ...judged, is: "wrong", isSilent: true };
  const { findings } = await manager.maintenance.verify();
  if (findings.length > 0) return { is: "found by verify" };
  return storage === "sqlite's log" ? judged : { ...judged, is: "wrong" };
}

/**
 * Saves to each task. An acknowledged save must be stored, with a sequence above all earlier or at least all visible
 * ones.
 */
async function saveAnew(storage: Flipped, manager: CheckpointManager, expected: Seen): Promise<Judged | undefined> {
  for (const task of TASKS) {
    try {
      const { id, sequence } = await manager.save(task, { saved: "anew" });
      await manager.restore(task, id);
      if (sequence <= lastSequence(expected, task))
        return { is: "torn tail", why: `a save to ${task} got ${sequence} again` };
    } catch (error) {
      if (!(error instanceof CheckpointError)) return { is: "wrong", why: `a save to ${task} threw ${String(error)}` };
      if (error.code !== "CHECKPOINT_NOT_FOUND") continue;
      // A damaged index of SQLite may not find the inserted rows.
      const isFound = storage === "sqlite" && (await manager.maintenance.verify()).findings.length > 0;
      return isFound ? { is: "found by verify" } : { is: "wrong", why: `what was saved to ${task} isn't there` };
    }
  }
  return undefined;
}

/** Returns the sequence that a save to a damaged store must exceed. Task `beta`'s newest checkpoint was removed. */
function lastSequence({ summaries }: Seen, task: (typeof TASKS)[number]): number {
  const newest = summaries.find(({ taskId }) => taskId === task)?.sequence ?? 0;
  return task === "beta" ? newest + 1 : newest;
}

/** Makes each call separately, because a refused call proves nothing about the others. */
async function judgeReads(manager: CheckpointManager, expected: Seen): Promise<Judged> {
  let reports = 0;
  manager.on("corrupt", () => {
    reports += 1;
  });
  const missing: string[] = [];
  const differs = differenceFrom(expected.earlier);
  const calls: readonly [string, () => Promise<string | undefined>][] = TASKS.flatMap((task) => {
    const ofTask = expected.checkpoints.filter(({ taskId }) => taskId === task);
    return [
      [`latest ${task}`, async () => differs([await manager.latest(task)], ofTask, ofTask[0]?.id)],
      [`history ${task}`, async () => differs(await collect(manager.history(task)), ofTask)],
      [
        `list ${task}`,
        async () =>
          differs(
            await manager.list(task),
            expected.summaries.filter(({ taskId }) => taskId === task),
          ),
      ],
      [
        `records ${task}`,
        async () => {
          const records = expected.records.filter(({ taskId }) => taskId === task);
          return records.length === 0
            ? undefined
            : differs(await collect(manager.records(task, RECORDS_ALONE)), records);
        },
      ],
      ...ofTask.map(({ id }): [string, () => Promise<string | undefined>] => [
        `restore ${task}`,
        async () => differs([await manager.restore(task, id)], ofTask, id),
      ]),
    ];
  });
  const newest = async (found: Promise<readonly TaskSummary[]>, count: number) =>
    differs(
      (await found).map((task) => task.newest),
      expected.summaries,
      undefined,
      count,
    );
  const ofAll: typeof calls = [
    ["tasks", () => newest(manager.tasks(), TASKS.length)],
    ["findIncomplete", () => newest(manager.findIncomplete(), TASKS.length)],
  ];
  for (const [name, call] of [...calls, ...ofAll]) {
    try {
      const before = reports;
      const difference = await call();
      if (difference?.startsWith("other")) return { is: "wrong", why: `${name} gave ${difference}` };
      if (difference !== undefined && reports === before) missing.push(`${name}: ${difference}`);
    } catch (error) {
      if (!(error instanceof CheckpointError)) return { is: "wrong", why: `${name} threw ${String(error)}` };
      // "Not found" isn't a report, because the checkpoint seems never to have been saved.
      if (error.code === "CHECKPOINT_NOT_FOUND") missing.push(`${name}: not found`);
      else reports += 1;
    }
  }
  if (missing.length > 0) return { is: "torn tail", why: missing.join("; ") };
  return { is: reports > 0 ? "reported" : "intact" };
}

/** Returns `other …` if a state was returned that was never saved, and `missing …` if a saved state wasn't returned. */
function differenceFrom(earlier: readonly object[]) {
  return (
    given: readonly ({ readonly id?: string } | undefined)[],
    expected: readonly object[],
    first?: string,
    count = first === undefined ? expected.length : 1,
  ): string | undefined => {
    const found = given.filter((one) => one !== undefined);
    const isOf = (known: readonly object[]) => (one: object) => known.some((other) => isDeepStrictEqual(other, one));
    const other = found.find((one) => !isOf(expected)(one) && !isOf(earlier)(one));
    if (other !== undefined) return `other ${JSON.stringify(other)}`;
    const current = found.filter(isOf(expected));
    if (found.length === 0 && count > 0) return "nothing";
    if (current.length < count) return `missing ${count - current.length}`;
    return first !== undefined && current[0]?.id !== first ? "missing the newest" : undefined;
  };
}

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

function filesIn(folder: string, storage: Flipped): string[] {
  if (storage === "sqlite") return ["checkpoints.db"];
  if (storage === "sqlite's log") return ["checkpoints.db-wal"].filter((name) => existsSync(join(folder, name)));
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.jsonl?$/.test(name))
    .sort();
}
