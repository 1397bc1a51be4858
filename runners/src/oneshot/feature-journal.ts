import { CheckpointConflictError } from "waymark";
import type { FeatureCheckpoints } from "waymark/kit";
import type { OneshotCheckpoint, OneshotRunState, OneshotStatus } from "waymark/oneshot";
import type { CheckedWorkstream } from "./plan.js";

/** The start of a run. */
export interface JournalStart {
  readonly featureId: string;
  readonly agentId: string;
  readonly startTime: Date;
  readonly completed: readonly string[];
  /** In the plan's order. */
  readonly workstreams: readonly CheckedWorkstream[];
  /** The plan's origin. */
  readonly plan: OneshotRunState;
  /** The revision of the checkpoint that this run continues; `undefined` if there is none. */
  readonly revision: string | undefined;
}

/**
 * The journal of one run of a feature. It writes an entry only if the entry before it is still the newest. If somebody
 * else writes, the run stops before it does anything more.
 */
export class FeatureJournal {
  readonly #checkpoints: FeatureCheckpoints;
  readonly #start: JournalStart;
  readonly #clock: () => number;
  /**
   * The workstreams that runs have completed; they are stored in the checkpoint. Those that authors have completed
   * aren't stored, since an author may undo that.
   */
  readonly #completed: Set<string>;
  readonly #byAuthors: ReadonlySet<string>;
  readonly #running = new Set<string>();
  /** The workstreams that failed or were stopped. */
  readonly #undone = new Set<string>();
  #status: OneshotStatus = "running";
  #revision: string | undefined;
  #last: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(checkpoints: FeatureCheckpoints, start: JournalStart, clock: () => number) {
    this.#checkpoints = checkpoints;
    this.#start = start;
    this.#clock = clock;
    this.#completed = new Set(start.completed);
    this.#byAuthors = new Set(start.workstreams.filter(({ isCompleted }) => isCompleted).map(({ id }) => id));
    this.#revision = start.revision;
  }

  /** First the workstreams that their authors completed, then the others in the order of their completion. */
  get completed(): string[] {
    const byAuthors = [...this.#byAuthors].filter((id) => !this.#completed.has(id));
    return [...byAuthors, ...[...this.#completed].filter((id) => this.#isPlanned(id))];
  }

  /** Workstreams that an earlier run completed and the plan no longer has. They stay recorded in case they return. */
  get unplanned(): string[] {
    return [...this.#completed].filter((id) => !this.#isPlanned(id));
  }

  hasCompleted(workstream: string): boolean {
    return this.#completed.has(workstream) || this.#byAuthors.has(workstream);
  }

  markStarted(workstream: string): void {
    this.#running.add(workstream);
    this.#undone.delete(workstream);
  }

  markCompleted(workstream: string): void {
    this.#running.delete(workstream);
    this.#completed.add(workstream);
  }

  markFailed(workstream: string): void {
    this.markStopped(workstream);
    this.#status = "failed";
  }

  markStopped(workstream: string): void {
    this.#running.delete(workstream);
    this.#undone.add(workstream);
  }

  /**
   * Resolves once all marks made so far are on disk. Marks made while an entry is being written go into the next entry.
   * After a failed save, nothing more is written.
   */
  save(): Promise<void> {
    this.#next ??= this.#last.then(() => {
      this.#next = undefined;
      return this.#write();
    });
    this.#last = this.#next;
    return this.#next;
  }

  /** Writes the last entry of the run. */
  async close(status: "paused" | "failed"): Promise<void> {
    this.#status = status;
    await this.save();
  }

  /** Removes the file once everything is completed. */
  async complete(): Promise<void> {
    await this.#last;
    await this.#checkpoints.remove(this.#start.featureId, { revision: this.#revision });
  }

  #isPlanned(workstream: string): boolean {
    return this.#start.workstreams.some(({ id }) => id === workstream);
  }

  async #write(): Promise<void> {
    const { featureId } = this.#start;
    try {
      this.#revision = await this.#checkpoints.save(this.#checkpoint(), { revision: this.#revision });
    } catch (cause) {
      if (!(cause instanceof CheckpointConflictError)) throw cause;
      throw new CheckpointConflictError(
        `The checkpoint of feature ${JSON.stringify(featureId)} in ${this.#checkpoints.folder} was changed or removed by ` +
          "another run or program. It was left untouched, and the workstreams that ran here were ended; look at it, " +
          "then resume or restart.",
        { cause },
      );
    }
  }

  #checkpoint(): OneshotCheckpoint {
    const { featureId, agentId, startTime, plan } = this.#start;
    return {
      featureId,
      agentId,
      status: this.#status,
      completedWs: [...this.#completed],
      currentWs: this.#current(),
      startTime,
      lastUpdate: new Date(this.#clock()),
      ...(Object.keys(plan).length === 0 ? undefined : { waymark: plan }),
    };
  }

  #current(): string {
    const { workstreams } = this.#start;
    const first = (isIt: (id: string) => boolean) => workstreams.find(({ id }) => isIt(id))?.id;
    return (
      first((id) => this.#running.has(id)) ??
      first((id) => this.#undone.has(id)) ??
      first((id) => !this.hasCompleted(id)) ??
      ""
    );
  }
}
