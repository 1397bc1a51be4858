import type { Checkpoint, CheckpointStatus } from "../../checkpoint.js";
import { CheckpointConflictError } from "../../errors.js";
import { isUnderWay, Runner } from "../processes/runner.js";
import type { Position } from "./next-step.js";
import type { LoadedPrp } from "./prp-document.js";
import type { CheckpointExecutionState, PrpRunState } from "./schema.js";
import { appendState, type PrpCheckpoints, statusOf } from "./storage.js";

/** How a position is saved. */
export interface EntryOptions {
  readonly label: string;
  /** The work that may start once this entry is acknowledged. */
  readonly process?: PrpRunState["process"] | undefined;
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
  readonly #checkpoints: PrpCheckpoints | undefined;
  readonly #prp: LoadedPrp;
  readonly #runner: Runner;
  #sequence: number | undefined;

  private constructor(
    checkpoints: PrpCheckpoints | undefined,
    prp: LoadedPrp,
    runner: Runner,
    { newest, sequence }: Newest,
  ) {
    this.newest = newest;
    this.#checkpoints = checkpoints;
    this.#prp = prp;
    this.#runner = runner;
    this.#sequence = sequence;
  }

  /**
   * @param checkpoints - Without them nothing is written, and nothing read.
   * @throws {CheckpointConflictError} Another execution of the task is under way.
   */
  static async open(checkpoints: PrpCheckpoints | undefined, prp: LoadedPrp): Promise<RunJournal> {
    const found = await findNewest(checkpoints, prp.taskId);
    const { newest } = found;
    const other = newest?.status === "running" ? newest.state.waymark?.runner : undefined;
    if (other !== undefined && (await isUnderWay(other))) {
      throw new CheckpointConflictError(
        `Task ${JSON.stringify(prp.taskId)} is being executed by process ${other.pid} already. Nothing was changed; ` +
          "wait for it, or end that process and execute the PRP again.",
      );
    }
    return new RunJournal(checkpoints, prp, await Runner.begin(), found);
  }

  /**
   * Resolves once the entry is on disk.
   *
   * @throws {CheckpointConflictError} Another execution has written meanwhile; nothing was saved.
   */
  async save(position: Position, { label, process, error, status }: EntryOptions): Promise<void> {
    if (this.#checkpoints === undefined) return;
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
        ...(artifacts.length === 0 ? undefined : { artifacts: [...artifacts] }),
      },
    };
    const saved = await appendState(this.#checkpoints, this.#prp.taskId, label, state, {
      error,
      status,
      expectedSequence: this.#sequence,
    });
    this.#sequence = saved.sequence;
  }

  /** The execution is over, whatever came of it. */
  close(): void {
    this.#runner.end();
  }
}

interface Newest {
  /** The newest that can be read. */
  readonly newest: Checkpoint<CheckpointExecutionState> | undefined;
  /** Of the newest, be it damaged; 0 for none, `undefined` where that one doesn't tell. */
  readonly sequence: number | undefined;
}

async function findNewest(checkpoints: PrpCheckpoints | undefined, taskId: string): Promise<Newest> {
  if (checkpoints === undefined) return { newest: undefined, sequence: 0 };
  const damaged: (number | undefined)[] = [];
  const forget = checkpoints.on("corrupt", (record) => {
    if (record.taskId === taskId) damaged.push(record.sequence);
  });
  try {
    const newest = await checkpoints.latest(taskId);
    const sequences = [newest?.sequence ?? 0, ...damaged].filter((sequence) => sequence !== undefined);
    return { newest, sequence: sequences.length > damaged.length ? Math.max(...sequences) : undefined };
  } finally {
    forget();
  }
}
