import type { SetAside } from "../../adapters/files/set-aside.js";
import type { Checkpoint, CheckpointStatus } from "../../src/contract/checkpoint.js";
import { CheckpointConflictError, CheckpointCorruptError } from "../../src/contract/errors.js";
import { isUnderWay, Runner } from "../processes/runner.js";
import type { Position } from "./next-step.js";
import type { LoadedPrp } from "./prp-document.js";
import type { CheckpointExecutionState, PrpRunState, WorkProgress } from "./schema.js";
import { type PrpCheckpoints, type SessionCheckpoints, statusOf } from "./storage.js";

/** How a position is saved. */
export interface EntryOptions {
  readonly label: string;
  /** The work that may start once this entry is acknowledged. */
  readonly process?: PrpRunState["process"] | undefined;
  /** How far the work has come that is under way, or was ended before its time. */
  readonly progress?: WorkProgress | undefined;
  readonly error?: unknown;
  /** Default: the stage's. */
  readonly status?: CheckpointStatus;
}

/**
 * What one execution of a PRP writes down. Each entry is written only if the one before it still is the newest, so of
 * two executions of one task, one is refused before it has done anything.
 */
export class RunJournal {
  /** The newest checkpoint when the execution began. */
  readonly newest: Checkpoint<CheckpointExecutionState> | undefined;
  readonly #session: SessionCheckpoints | undefined;
  readonly #prp: LoadedPrp;
  readonly #runner: Runner;
  #sequence: number | undefined;
  /** The entries that the next one takes the place of. */
  #passing: readonly string[] = [];
  /** The last answer was an error: what it was about may be stored all the same. */
  #isUnsure = false;

  private constructor(
    session: SessionCheckpoints | undefined,
    prp: LoadedPrp,
    runner: Runner,
    { newest, sequence }: Newest,
  ) {
    this.newest = newest;
    this.#session = session;
    this.#prp = prp;
    this.#runner = runner;
    this.#sequence = sequence;
  }

  /**
   * @param session - Without it nothing is written, and nothing read.
   * @param restart.onSetAside - Told of the task's file where that is so damaged that it got another name, so that the
   *   work can begin anew. Without `restart` it is an error.
   * @throws {CheckpointConflictError} Another execution of the task is under way.
   */
  static async open(
    session: SessionCheckpoints | undefined,
    prp: LoadedPrp,
    restart?: { readonly onSetAside: (aside: SetAside) => void } | undefined,
  ): Promise<RunJournal> {
    const found = await findNewest(session?.checkpoints, prp.taskId, restart !== undefined);
    const { newest } = found;
    const other = newest?.status === "running" ? newest.state.waymark?.runner : undefined;
    if (other !== undefined && (await isUnderWay(other))) {
      throw new CheckpointConflictError(
        `Task ${JSON.stringify(prp.taskId)} is being executed by process ${other.pid} already. Nothing was changed; ` +
          "wait for it, or end that process and execute the PRP again.",
      );
    }
    const aside = restart && (await session?.setAside(prp.taskId));
    if (aside) restart.onSetAside(aside);
    const start = aside ? { newest, sequence: 0 } : found;
    return new RunJournal(session, prp, await Runner.begin(), start);
  }

  /**
   * Resolves once the entry is on disk.
   *
   * @throws {CheckpointConflictError} Another execution has written meanwhile; nothing was saved.
   */
  async save(position: Position, options: EntryOptions): Promise<void> {
    await this.#append(position, options, false);
  }

  /**
   * Saves how far the work on a position has come. Whoever goes on from it goes on from that position. The next entry
   * takes its place, so that of one command's work there is no more than one, and no other entry is pushed out.
   */
  async saveProgress(position: Position, options: EntryOptions & { readonly progress: WorkProgress }): Promise<void> {
    await this.#append(position, options, true);
  }

  /** The execution is over, whatever came of it. */
  close(): void {
    this.#runner.end();
  }

  async #append(
    position: Position,
    { label, process, progress, error, status }: EntryOptions,
    isPassing: boolean,
  ): Promise<void> {
    if (this.#session === undefined) return;
    if (this.#isUnsure) await this.#findOwnNewest(this.#session.checkpoints);
    const { artifacts, fixAttempt, validationResults, ...rest } = position;
    const isUnderWay = (status ?? statusOf(position.stage)) === "running";
    const state: CheckpointExecutionState = {
      ...rest,
      prpPath: this.#prp.path,
      validationResults: [...validationResults],
      ...(fixAttempt === 0 ? undefined : { fixAttempt }),
      timestamp: new Date(),
      waymark: {
        prpDigest: this.#prp.digest,
        ...(isUnderWay ? { runner: this.#runner.identity } : undefined),
        ...(process === undefined ? undefined : { process }),
        ...(progress === undefined ? undefined : { progress }),
        ...(artifacts.length === 0 ? undefined : { artifacts: [...artifacts] }),
      },
    };
    this.#isUnsure = true;
    const saved = await this.#session.append(this.#prp.taskId, label, state, {
      error,
      status,
      expectedSequence: this.#sequence,
      replaces: this.#passing,
      isPassing,
    });
    this.#isUnsure = false;
    this.#sequence = saved.sequence;
    this.#passing = isPassing ? [saved.id] : [];
  }

  /** Goes on from an entry of this execution that was stored although its answer was an error. */
  async #findOwnNewest(checkpoints: PrpCheckpoints): Promise<void> {
    const newest = await checkpoints.latest(this.#prp.taskId);
    const { runner, progress } = newest?.state.waymark ?? {};
    if (newest === undefined || runner?.runId !== this.#runner.identity.runId) return;
    if (newest.sequence === this.#sequence) return;
    this.#sequence = newest.sequence;
    if (progress !== undefined) this.#passing = [...this.#passing, newest.id];
  }
}

interface Newest {
  /** The newest that can be read. */
  readonly newest: Checkpoint<CheckpointExecutionState> | undefined;
  /** Of the newest, be it damaged; 0 for none, `undefined` where that one doesn't tell. */
  readonly sequence: number | undefined;
}

async function findNewest(
  checkpoints: PrpCheckpoints | undefined,
  taskId: string,
  isRestart: boolean,
): Promise<Newest> {
  if (checkpoints === undefined) return { newest: undefined, sequence: 0 };
  const damaged: (number | undefined)[] = [];
  const forget = checkpoints.on("corrupt", (record) => {
    if (record.taskId === taskId) damaged.push(record.sequence);
  });
  try {
    const newest = await checkpoints.latest(taskId).catch((error: unknown) => {
      if (isRestart && error instanceof CheckpointCorruptError) return undefined;
      throw error;
    });
    const sequences = [newest?.sequence ?? 0, ...damaged].filter((sequence) => sequence !== undefined);
    return { newest, sequence: sequences.length > damaged.length ? Math.max(...sequences) : undefined };
  } finally {
    forget();
  }
}
