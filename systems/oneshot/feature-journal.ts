import { CheckpointConflictError } from "../../src/contract/errors.js";
import type { GroupIdentity } from "../processes/process-group.js";
import type { RunnerIdentity } from "../processes/runner.js";
import type { CheckedWorkstream } from "./plan.js";
import type { OneshotCheckpoint, OneshotStatus } from "./schema.js";
import type { FeatureCheckpoints } from "./storage.js";

/** A workstream's processes. */
export interface WorkstreamProcess extends GroupIdentity {
  readonly workstream: string;
}

/** Where a run begins. */
export interface JournalStart {
  readonly featureId: string;
  readonly agentId: string;
  readonly startTime: Date;
  readonly completed: readonly string[];
  /** What an earlier run may have left running. */
  readonly orphans: readonly WorkstreamProcess[];
  readonly runner: RunnerIdentity;
  /** In the plan's order. */
  readonly workstreams: readonly CheckedWorkstream[];
  /** The plan's file, seen from the base folder. */
  readonly planFile: string | undefined;
  /** The revision of the checkpoint that this run continues; `undefined` for none. */
  readonly revision: string | undefined;
}

/**
 * What one run of a feature writes down. Each entry is written only if the one before it still is what is there, so of
 * two runs of one feature, one is refused before it has done anything.
 */
export class FeatureJournal {
  readonly #checkpoints: FeatureCheckpoints;
  readonly #start: JournalStart;
  readonly #clock: () => number;
  readonly #completed: Set<string>;
  readonly #processes = new Map<string, WorkstreamProcess>();
  readonly #running = new Set<string>();
  /** Failed or stopped. */
  readonly #undone = new Set<string>();
  #status: OneshotStatus = "running";
  #isOver = false;
  #revision: string | undefined;
  #last: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(checkpoints: FeatureCheckpoints, start: JournalStart, clock: () => number) {
    this.#checkpoints = checkpoints;
    this.#start = start;
    this.#clock = clock;
    this.#completed = new Set(start.completed);
    this.#revision = start.revision;
    for (const orphan of start.orphans) this.#processes.set(orphan.workstream, orphan);
  }

  /** In the order in which they were completed. */
  get completed(): string[] {
    return [...this.#completed].filter((id) => this.#isPlanned(id));
  }

  /** What an earlier run has completed, and the plan doesn't have (any more). It stays on record: a plan may be put back. */
  get unplanned(): string[] {
    return [...this.#completed].filter((id) => !this.#isPlanned(id));
  }

  hasCompleted(workstream: string): boolean {
    return this.#completed.has(workstream);
  }

  /** Nothing of an earlier run is left of it. */
  forgetOrphan(workstream: string): void {
    this.#processes.delete(workstream);
  }

  markStarted(workstream: string, process: GroupIdentity): void {
    this.#processes.set(workstream, { workstream, ...process });
    this.#running.add(workstream);
    this.#undone.delete(workstream);
  }

  markCompleted(workstream: string): void {
    this.#markEnded(workstream);
    this.#completed.add(workstream);
  }

  markFailed(workstream: string): void {
    this.#markEnded(workstream);
    this.#undone.add(workstream);
    this.#status = "failed";
  }

  markStopped(workstream: string): void {
    this.#markEnded(workstream);
    this.#undone.add(workstream);
  }

  /**
   * Resolves once what has been marked up to now is on disk. What is marked while an entry is being written goes into
   * the next one, all together. After a save that failed, nothing more is written.
   */
  save(): Promise<void> {
    this.#next ??= this.#last.then(() => {
      this.#next = undefined;
      return this.#write();
    });
    this.#last = this.#next;
    return this.#next;
  }

  /** The last entry: nobody runs the feature any more. */
  async close(status: "paused" | "failed"): Promise<void> {
    this.#status = status;
    this.#isOver = true;
    await this.save();
  }

  /** All is done: the file goes, and what locks have left of it. */
  async complete(): Promise<void> {
    await this.#last;
    await this.#checkpoints.remove(this.#start.featureId, { revision: this.#revision });
  }

  #isPlanned(workstream: string): boolean {
    return this.#start.workstreams.some(({ id }) => id === workstream);
  }

  #markEnded(workstream: string): void {
    this.#processes.delete(workstream);
    this.#running.delete(workstream);
  }

  async #write(): Promise<void> {
    const { featureId } = this.#start;
    try {
      this.#revision = await this.#checkpoints.save(this.#checkpoint(), { revision: this.#revision });
    } catch (cause) {
      if (!(cause instanceof CheckpointConflictError)) throw cause;
      throw new CheckpointConflictError(
        `The checkpoint of feature ${JSON.stringify(featureId)} in ${this.#checkpoints.folder} was changed or removed by ` +
          "another program while it was run. What is there was left untouched, and what ran was ended; look at it, then " +
          "resume or restart.",
        { cause },
      );
    }
  }

  #checkpoint(): OneshotCheckpoint {
    const { featureId, agentId, startTime, runner, planFile } = this.#start;
    const processes = [...this.#processes.values()];
    const waymark = {
      ...(planFile === undefined ? undefined : { plan: planFile }),
      ...(this.#isOver ? undefined : { runner }),
      ...(processes.length === 0 ? undefined : { processes }),
    };
    return {
      featureId,
      agentId,
      status: this.#status,
      completedWs: [...this.#completed],
      currentWs: this.#current(),
      startTime,
      lastUpdate: new Date(this.#clock()),
      ...(Object.keys(waymark).length === 0 ? undefined : { waymark }),
    };
  }

  #current(): string {
    const { workstreams } = this.#start;
    const first = (isIt: (id: string) => boolean) => workstreams.find(({ id }) => isIt(id))?.id;
    return (
      first((id) => this.#running.has(id)) ??
      first((id) => this.#undone.has(id)) ??
      first((id) => !this.#completed.has(id)) ??
      ""
    );
  }
}
