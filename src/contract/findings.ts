/** The fields of every finding, as far as they are known. */
interface Found {
  /** Where it is: a path, or a table and row. */
  readonly location: string;
  /** The damage, in words. */
  readonly reason: string;
  readonly taskId?: string;
  readonly id?: string;
  readonly sequence?: number;
}

/**
 * Saved data that can't be trusted: a checkpoint that can't be read or fails its seal or digest, a numbering that can't
 * be read, or what a database's own check reports. Repair moves it to quarantine if it can.
 */
export interface DamagedFinding extends Found {
  readonly kind: "damaged";
  /** When it was saved, if that can still be read. It may be damaged too. */
  readonly createdAt?: string;
}

/** A file that a killed write left behind. It does no harm. Repair removes it once it is old enough. */
export interface LeftoverFinding extends Found {
  readonly kind: "leftover";
  /** When it was last written to: ISO 8601 in UTC. */
  readonly modifiedAt: string;
}

/** Data of a newer version or another program. It isn't damage, and repair leaves it. */
export interface RefusedFinding extends Found {
  readonly kind: "refused";
}

/**
 * A checkpoint that has the sequence of the one before it, as after a merge of two branches of a repository. Both are intact:
 * reads give both, in the order of their times. Repair leaves them.
 */
export interface MergedFinding extends Found {
  readonly kind: "merged";
}

/** A finding of verification, by `kind`. */
export type StorageFinding = DamagedFinding | LeftoverFinding | RefusedFinding | MergedFinding;

/** One checkpoint was checked, damaged or not: for counts and progress. The checkpoints of a task come together. */
export interface CheckedRecord {
  readonly kind: "checked";
  /** Its task, if that is known. */
  readonly taskId?: string;
  /** Its payload's size; 0 if that is unknown. */
  readonly sizeBytes: number;
}

/** How thorough a verification is. */
export interface StorageVerification {
  /** Skips payloads, so damage that only their digest shows is not found. */
  readonly quick: boolean;
}

/** The limits of a repair. */
export interface StorageRepair {
  /** Younger leftovers stay: their writer may still be running. */
  readonly leftoversOlderThanMs: number;
  /** Changes nothing and reports what it would do. */
  readonly dryRun: boolean;
  /** Stops the repair where it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

/** A step of a repair: its action on a finding, or in a dry run the one that it would take. */
export type RepairStep =
  /** Moved away, byte for byte, with the reason beside it. `to`: where it is now. */
  | { readonly action: "quarantined"; readonly finding: DamagedFinding; readonly to: string }
  | { readonly action: "removed"; readonly finding: LeftoverFinding }
  /** It stays as it is. `advice` says why, and what a person can do. */
  | { readonly action: "left"; readonly finding: StorageFinding; readonly advice: string };

/** The optional part of an adapter that finds damage and moves it away: `StorageAdapter.maintenance`. */
export interface StorageMaintenance {
  /**
   * Checks everything that is stored, task by task, in constant memory. It also finds what only the adapter can see:
   * leftovers of killed writes, a numbering that can't be read, what its backend's own check reports.
   *
   * - MUST yield a `checked` for each checkpoint, and a `damaged` finding for each one that can't be read or fails
   *   `findDamage`; `quick` may skip what needs its payload. (case: verify.finds)
   * - MUST change nothing, and report nothing if nothing is wrong, even while other processes write.
   *   (case: verify.quiet)
   */
  verify(options: StorageVerification): AsyncIterable<StorageFinding | CheckedRecord>;

  /**
   * Moves damaged checkpoints to quarantine, byte for byte and with the reason, and removes old leftovers.
   *
   * - MUST NOT delete a damaged record or touch an intact one. A kill at any point loses nothing, and a second repair
   *   finishes what the first began. After a repair no call returns a CorruptRecord. (case: repair.moves)
   * - MUST NOT reuse a damaged record's sequence if it can still be read. (case: repair.keeps-numbering)
   * - A dry run MUST change nothing and report the same steps. (case: repair.dry-run)
   * - MUST end soon after its signal is aborted: between two checkpoints, with neither of them half moved. It needn't throw.
   *   (case: repair.stops)
   */
  repair(options: StorageRepair): AsyncIterable<RepairStep>;
}
