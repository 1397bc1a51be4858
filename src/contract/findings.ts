/** What every finding says, as far as it is known. */
interface Found {
  /** Where it is: a path, or a table and row. */
  readonly location: string;
  /** What is wrong with it. */
  readonly reason: string;
  readonly taskId?: string;
  readonly id?: string;
  readonly sequence?: number;
}

/**
 * Something that was saved and can't be trusted: a checkpoint that can't be read or fails its seal or digest, a
 * numbering that can't be read, what a database's own check reports. Repair moves it to quarantine where it can.
 */
export interface DamagedFinding extends Found {
  readonly kind: "damaged";
  /** When it was saved, if that can still be read. It may be damaged too. */
  readonly createdAt?: string;
}

/** What a killed write left behind. It harms nothing. Repair removes it once it is old enough. */
export interface LeftoverFinding extends Found {
  readonly kind: "leftover";
  /** When it was last written to: ISO 8601 in UTC. */
  readonly modifiedAt: string;
}

/** Something that a newer version or another program wrote. It isn't damage. Repair leaves it. */
export interface RefusedFinding extends Found {
  readonly kind: "refused";
}

/** What is wrong with a storage, by `kind`. */
export type StorageFinding = DamagedFinding | LeftoverFinding | RefusedFinding;

/** One checkpoint was looked at, whole or not: for counts and progress. Those of one task come together. */
export interface CheckedRecord {
  readonly kind: "checked";
  /** Its task, if that is known. */
  readonly taskId?: string;
  /** Its payload's size; 0 if that is unknown. */
  readonly sizeBytes: number;
}

/** How thorough a verification is. */
export interface StorageVerification {
  /** Leaves payloads unread: damage that only their digest shows isn't found. */
  readonly quick: boolean;
}

/** What a repair may do. */
export interface StorageRepair {
  /** Younger leftovers stay: their writer may still live. */
  readonly leftoversOlderThanMs: number;
  /** Changes nothing and reports what it would do. */
  readonly dryRun: boolean;
}

/** What a repair did about a finding, or would do. */
export type RepairStep =
  /** Moved away, byte for byte, with the reason beside it. `to`: where it is now. */
  | { readonly action: "quarantined"; readonly finding: DamagedFinding; readonly to: string }
  | { readonly action: "removed"; readonly finding: LeftoverFinding }
  /** It stays as it is. `advice`: why, and what a person can do. */
  | { readonly action: "left"; readonly finding: StorageFinding; readonly advice: string };

/** The optional part of an adapter that looks for damage and moves it away: `StorageAdapter.maintenance`. */
export interface StorageMaintenance {
  /**
   * Looks at all that is stored, task by task, in constant memory. It also finds what only the adapter can see:
   * leftovers of killed writes, a numbering that can't be read, what its backend's own check says.
   *
   * - MUST give a `checked` for each checkpoint, and a `damaged` finding for each that can't be read or in which
   *   `damageIn` finds something; `quick` may leave out what takes reading its payload. (case: verify.finds)
   * - MUST change nothing, and report nothing where nothing is wrong, other processes' writes under way included.
   *   (case: verify.quiet)
   */
  verify(options: StorageVerification): AsyncIterable<StorageFinding | CheckedRecord>;

  /**
   * Moves damaged checkpoints to a place of their own, byte for byte and with the reason, and removes old leftovers.
   *
   * - MUST NOT delete a damaged record, nor touch an intact one; a kill at any point loses nothing, and a second repair
   *   finishes what the first began. After it nothing of the storage gives a CorruptRecord. (case: repair.moves)
   * - MUST NOT reuse a damaged record's sequence if it can still be read. (case: repair.keeps-numbering)
   * - A dry run MUST change nothing and report the same steps. (case: repair.dry-run)
   */
  repair(options: StorageRepair): AsyncIterable<RepairStep>;
}
