/** The fields of every finding. A field whose value is unknown is missing. */
interface Found {
  /** The place of the data: a path, or a table and row. */
  readonly location: string;
  /** The damage, in words. */
  readonly reason: string;
  readonly taskId?: string;
  readonly id?: string;
  readonly sequence?: number;
}

/**
 * Damaged data: a checkpoint or record that can't be read or fails its seal or digest, a numbering that can't be read,
 * or a report of the database's own check. Repair moves it to quarantine if possible.
 */
export interface DamagedFinding extends Found {
  readonly kind: "damaged";
  /** The time of the save, if it can be read. It may be wrong, since the record is damaged. */
  readonly createdAt?: string;
}

/** A harmless file left behind by a killed write. Repair removes it once it is old enough. */
export interface LeftoverFinding extends Found {
  readonly kind: "leftover";
  /** The time of the last write, in ISO 8601 UTC. */
  readonly modifiedAt: string;
}

/** Data of a newer version or of another program. It isn't damaged; repair leaves it. */
export interface RefusedFinding extends Found {
  readonly kind: "refused";
}

/**
 * A checkpoint with the same sequence as the previous checkpoint, for example after a merge of two branches of a
 * repository. Both are intact, and reads return both. Repair leaves them.
 */
export interface MergedFinding extends Found {
  readonly kind: "merged";
}

/** A finding of verification, by `kind`. */
export type StorageFinding = DamagedFinding | LeftoverFinding | RefusedFinding | MergedFinding;

/**
 * Reports that one checkpoint or record was checked, damaged or not. The caller uses it for counts and progress. All
 * checkpoints and records of a task are reported one after another.
 */
export interface CheckedRecord {
  readonly kind: "checked";
  /** The task, if it is known. */
  readonly taskId?: string;
  /** Whether it is a record of the task's log, and not a checkpoint. */
  readonly isRecord?: boolean;
  /** The payload's size; 0 if unknown. */
  readonly sizeBytes: number;
}

/** How thorough a verification is. */
export interface StorageVerification {
  /** If true, payloads aren't read. Then damage that only a payload's digest shows is not found. */
  readonly quick: boolean;
}

/** The limits of a repair. */
export interface StorageRepair {
  /** Younger leftovers stay: their writer may still be running. */
  readonly leftoversOlderThanMs: number;
  /** If true, nothing is changed, and the same steps are reported. */
  readonly dryRun: boolean;
  /** Stops the repair. */
  readonly signal?: AbortSignal | undefined;
}

/** The action of a repair on one finding. In a dry run: the action that it would take. */
export type RepairStep =
  /** The data was moved to `to`, byte for byte, with the reason next to it. */
  | { readonly action: "quarantined"; readonly finding: DamagedFinding; readonly to: string }
  | { readonly action: "removed"; readonly finding: LeftoverFinding }
  /** The data stays as it is. `advice` says why, and what a person can do. */
  | { readonly action: "left"; readonly finding: StorageFinding; readonly advice: string };

/** Finds damage and moves it away: the optional part `StorageAdapter.maintenance`. */
export interface StorageMaintenance {
  /**
   * Checks everything that is stored, task by task, in constant memory. It also reports leftovers of killed writes, a
   * numbering that can't be read, and the findings of the backend's own check.
   *
   * - MUST yield a `checked` for each checkpoint, and a `damaged` finding for each one that can't be read or fails
   *   `findDamage`. With `quick`, checks that need the payload may be skipped. (case: verify.finds)
   * - If the adapter has a log, the same holds for each record, with `findRecordDamage`. (case: verify.finds-records)
   * - MUST change nothing. If nothing is wrong, it MUST yield no finding, even while other processes write.
   *   (case: verify.quiet)
   */
  verify(options: StorageVerification): AsyncIterable<StorageFinding | CheckedRecord>;

  /**
   * Moves damaged checkpoints and records to quarantine, byte for byte and with the reason, and removes old leftovers.
   *
   * - MUST NOT delete a damaged record or touch an intact one. A kill at any point MUST lose nothing, and a second
   *   repair MUST finish the first. After a repair no call returns a CorruptRecord. (cases: repair.moves,
   *   repair.moves-records)
   * - If a damaged record's sequence can still be read, it MUST NOT be reused. (cases: repair.keeps-numbering,
   *   repair.moves-records)
   * - A dry run MUST change nothing and report the same steps. (case: repair.dry-run)
   * - Once `signal` is aborted, the repair MUST end soon, between two records, so that none is half moved. It
   *   needn't throw. (case: repair.stops)
   */
  repair(options: StorageRepair): AsyncIterable<RepairStep>;
}
