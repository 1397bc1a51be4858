import { CheckpointConflictError } from "waymark";
import type { FeatureCheckpoints } from "waymark/kit";
import type { OneshotCheckpoint } from "waymark/oneshot";
import type { CheckedWorkstream } from "./plan.js";

/** The fields that are the same in all entries of a run. */
type EntryBase = Pick<OneshotCheckpoint, "featureId" | "agentId" | "startTime" | "waymark">;

/** The start of a run. */
export interface JournalStart {
  readonly completed: readonly string[];
  /** The workstreams in the plan's order. */
  readonly workstreams: readonly CheckedWorkstream[];
  /** The revision of the checkpoint that this run continues; `undefined` if there is none. */
  readonly revision: string | undefined;
}

/** The state of a workstream in this run. The next run starts a stopped workstream again. */
export type WorkstreamState = "running" | "completed" | "failed" | "stopped";

/**
 * The journal of a feature's run. It writes an entry only if its previous entry is still the newest. If another
 * run or program writes, this run stops before it does anything else.
 */
export class FeatureJournal {
  readonly #checkpoints: FeatureCheckpoints;
  readonly #base: EntryBase;
  readonly #workstreams: readonly CheckedWorkstream[];
  readonly #clock: () => number;
  readonly #byAuthors: ReadonlySet<string>;
  /** Completed workstreams are in the order of their completion. They include those that the plan no longer has. */
  readonly #states = new Map<string, WorkstreamState>();
  #revision: string | undefined;
  #ended: "paused" | "failed" | undefined;
  #last: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(checkpoints: FeatureCheckpoints, base: EntryBase, start: JournalStart, clock: () => number) {
    this.#checkpoints = checkpoints;
    this.#base = base;
    this.#workstreams = start.workstreams;
    this.#clock = clock;
    this.#byAuthors = new Set(start.workstreams.filter(({ isCompleted }) => isCompleted).map(({ id }) => id));
    this.#revision = start.revision;
    for (const id of start.completed) this.#states.set(id, "completed");
  }

  /** The workstreams that their authors completed, then the others in the order of their completion. */
  get completed(): string[] {
    const byRuns = this.#completedByRuns().filter((id) => this.#isPlanned(id));
    return [...[...this.#byAuthors].filter((id) => !byRuns.includes(id)), ...byRuns];
  }

  /**
   * Workstreams that an earlier run completed and the plan no longer has. They stay recorded in case the plan lists
   * them again.
   */
  get unplanned(): string[] {
    return this.#completedByRuns().filter((id) => !this.#isPlanned(id));
  }

  hasCompleted(workstream: string): boolean {
    return this.#states.get(workstream) === "completed" || this.#byAuthors.has(workstream);
  }

  mark(workstream: string, state: WorkstreamState): void {
    this.#states.delete(workstream);
    this.#states.set(workstream, state);
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
    this.#ended = status;
    await this.save();
  }

  /** Removes the file once everything is completed. */
  async complete(): Promise<void> {
    await this.#last;
    await this.#checkpoints.remove(this.#base.featureId, { revision: this.#revision });
  }

  #isPlanned(workstream: string): boolean {
    return this.#workstreams.some(({ id }) => id === workstream);
  }

  /**
   * Returns the workstreams that runs completed. Only these are stored: an author may reopen what an author completed.
   */
  #completedByRuns(): string[] {
    return [...this.#states].flatMap(([id, state]) => (state === "completed" ? [id] : []));
  }

  async #write(): Promise<void> {
    const states = [...this.#states.values()];
    const checkpoint: OneshotCheckpoint = {
      ...this.#base,
      status: this.#ended ?? (states.includes("failed") ? "failed" : "running"),
      completedWs: this.#completedByRuns(),
      currentWs: this.#current(),
      lastUpdate: new Date(this.#clock()),
    };
    try {
      this.#revision = await this.#checkpoints.save(checkpoint, { revision: this.#revision });
    } catch (cause) {
      if (!(cause instanceof CheckpointConflictError)) throw cause;
      throw new CheckpointConflictError(
        `The checkpoint of feature ${JSON.stringify(this.#base.featureId)} in ${this.#checkpoints.folder} was changed or removed by ` +
          "another run or program. It was left untouched, and the workstreams that ran here were ended; look at it, " +
          "then resume or restart.",
        { cause },
      );
    }
  }

  #current(): string {
    const isOpen = (id: string) => !this.hasCompleted(id);
    const isUndone = (id: string) => isOpen(id) && this.#states.has(id);
    const isRunning = (id: string) => this.#states.get(id) === "running";
    const ids = this.#workstreams.map(({ id }) => id);
    return ids.find(isRunning) ?? ids.find(isUndone) ?? ids.find(isOpen) ?? "";
  }
}
