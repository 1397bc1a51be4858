import { cp, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect } from "vitest";
import { checkHistory, parseHistory } from "waymark/testing";
import { FOLD, FORM } from "../../adapters/sql/history.js";
import { aimedFaults } from "./aimed-fault.js";
import { type Ended, inProcess, recorded } from "./crash-process.js";
import { damage } from "./damage.js";
import { type Examined, Examiner } from "./examiner.js";
import {
  type Before,
  type Call,
  type Contents,
  DAMAGED,
  expectedContents,
  GROWN,
  HISTORY,
  INTERRUPTED,
  type Operation,
  type Past,
  RECORDS,
  type StoreKind,
  TRANSIENT,
} from "./operations.js";
import { PLACE } from "./place.js";
import { CHANGING, namesOf, OPENING, storeIn } from "./store-calls.js";
import { examination, wrongs } from "./verdict.js";

/** Tries one operation many times, each time on a copy of the same store. */
export class CrashSite {
  readonly kind: StoreKind;
  readonly operation: Operation;
  /** The expected content of the store before the operation's first call and after each call. */
  readonly contents: readonly Contents[];
  /** The history of the {@link prepared} store. */
  readonly history: readonly string[];
  /** The expected contents if the operation's first try failed and skipped a sequence. */
  readonly #contentsAfterGap: readonly Contents[];
  readonly #folder: string;
  readonly #examiners: Examiner[] = [];
  readonly #idle: Examiner[] = [];
  #copies = 0;

  private constructor(
    kind: StoreKind,
    operation: Operation,
    { history }: Past,
    contents: readonly Contents[][],
    folder: string,
  ) {
    this.kind = kind;
    this.operation = operation;
    this.history = history;
    [this.contents = [], this.#contentsAfterGap = []] = contents;
    this.#folder = folder;
  }

  static async make(kind: StoreKind, operation: Operation): Promise<CrashSite> {
    const folder = await mkdtemp(join(PLACE, "waymark-crash-"));
    const past = await prepare(kind, operation.before, join(folder, "prepared"));
    const { calls, callsAfterGap } = operation;
    const variants = callsAfterGap && !kind.startsWith("sqlite") ? [calls, callsAfterGap] : [calls];
    const contents = await Promise.all(variants.map((variant) => expectedContents(past, variant)));
    return new CrashSite(kind, operation, past, contents, folder);
  }

  /** The folder with the store before the operation, named `store`, if there is a store. */
  get prepared(): string {
    return join(this.#folder, "prepared");
  }

  /** Makes a folder with a copy of the {@link prepared} store. */
  async copy(): Promise<string> {
    const copy = join(this.#folder, String(this.#copies++));
    await cp(this.prepared, copy, { recursive: true, preserveTimestamps: true });
    return copy;
  }

  /** Reads the copy in another process, which has never opened it. */
  async examine(copy: string): Promise<Examined> {
    const examiner = this.#idle.pop() ?? this.#startExaminer();
    const found = await examiner.ask(storeIn(copy), examination("next"));
    this.#idle.push(examiner);
    return found;
  }

  #startExaminer(): Examiner {
    const record = join(this.#folder, `examiner-${this.#examiners.length}.strace`);
    const examiner = new Examiner(this.kind, record, [...CHANGING, ...OPENING]);
    this.#examiners.push(examiner);
    return examiner;
  }

  /** Checks a process's findings after a run. Returns the violations. */
  verdict({ answers, history, stderr }: Examined, run: Ended): string[] {
    return [
      ...wrongs(answers, ...this.around(run.answers.length)),
      ...findViolations([...this.history, ...run.history, ...history]),
      ...(stderr === "" ? [] : [stderr]),
    ];
  }

  /**
   * Returns the content that the store must have after `answered` acknowledged calls, and the content that it may
   * already have.
   */
  around(answered: number): readonly [before: Contents, after: Contents] {
    const [before, after = before] = this.contents.slice(answered);
    if (before === undefined || after === undefined) throw new Error(`${answered} answers to ${this.operation.name}`);
    return [before, after];
  }

  /**
   * Returns the contents that the store may have after the operation was tried twice. The first try may have failed.
   */
  afterTwoTries(): readonly Contents[] {
    return [...new Set([this.contents.at(-1), this.#contentsAfterGap.at(-1)])].filter((one) => one !== undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#examiners.map((examiner) => examiner[Symbol.asyncDispose]()));
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** Returns the violations in a history. */
export function findViolations(history: Iterable<string>): string[] {
  return checkHistory(parseHistory(history)).map(({ message }) => message);
}

/**
 * Does the work for several items at a time, and returns the results in order. More items run at a time than there are
 * processors, because a killed process may leave a lock, and the next process waits until it is stale.
 */
export async function forAll<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const entries = items.entries();
  const worker = async (): Promise<void> => {
    for (const [at, item] of entries) results[at] = await work(item);
  };
  await Promise.all(Array.from({ length: 4 * availableParallelism() }, worker));
  return results;
}

/** Makes the folder and the store in it. */
async function prepare(kind: StoreKind, before: Before, folder: string): Promise<Past> {
  await mkdir(folder, { recursive: true });
  const history: string[] = [];
  const past: Past = { calls: HISTORY, damaged: [], history };
  if (before === "nothing") return { ...past, calls: [] };
  const make = async (calls: readonly Call[]) => {
    const ended = await inProcess(kind, storeIn(folder), calls);
    history.push(...ended.history);
    return ended.answers;
  };
  expect(await make(HISTORY)).toEqual([1, 1, 2, 3].map((value) => ({ value })));
  if (before === "history") return past;
  if (before === "transient") {
    await make([TRANSIENT]);
    return { ...past, calls: [...HISTORY, TRANSIENT] };
  }
  if (before === "records") {
    expect(await make([RECORDS])).toEqual([{ value: 6 }]);
    return { ...past, calls: [...HISTORY, RECORDS] };
  }
  if (before === "grown") {
    await make(GROWN);
    expect(singlesIn(storeIn(folder))).toBe(FOLD - 1);
    return { ...past, calls: [...HISTORY, ...GROWN] };
  }
  if (before === "damaged") {
    damage(kind, storeIn(folder));
    // In the history, the damage counts as a removal that may have happened.
    const removal = { process: "damage", number: 1, taskId: "t", beginMs: 0, action: { is: "remove", what: DAMAGED } };
    history.push(JSON.stringify(removal));
    return { ...past, damaged: DAMAGED };
  }

  // The kill comes just before the commit on files, and just after it on SQLite, while the log still exists.
  const rehearsal = await copied(folder);
  const what = { calls: [...CHANGING, ...OPENING], thread: "main" } as const;
  const { ofStore } = await recorded(kind, storeIn(rehearsal), [INTERRUPTED], what);
  const named = [...namesOf(ofStore, rehearsal)];
  const [call, name] =
    named.findLast(([{ name }]) => name.startsWith("rename")) ?? named.find(([{ path }]) => path === undefined) ?? [];
  if (call === undefined || name === undefined)
    throw new Error(`The ${kind} adapter saves without a rename or an answer.`);
  for await (const kill of aimedFaults(kind, () => copied(folder), [INTERRUPTED], { name, call }, "signal=KILL")) {
    if (!kill.met) continue;
    expect(kill.run.answers).toEqual([]);
    history.push(...kill.run.history);
    await rm(folder, { recursive: true });
    await rename(kill.folder, folder);
  }
  return call.path === undefined ? { ...past, calls: [...HISTORY, INTERRUPTED] } : past;
}

/** Counts the deltas of a database that aren't in a bundle yet. */
function singlesIn(folder: string): unknown {
  const database = new Database(join(folder, "checkpoints.db"));
  const count = database.prepare(`SELECT count(*) FROM waymark_payloads WHERE form = ${FORM.delta}`).pluck().get();
  database.close();
  return count;
}

async function copied(folder: string): Promise<string> {
  const copy = await mkdtemp(`${folder}-`);
  await cp(folder, copy, { recursive: true });
  return copy;
}
