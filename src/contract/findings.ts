/** What every finding tells, as far as it is known. */
interface Found {
  /** Where it is: a path, or a table and row. */
  readonly location: string;
  /** What is wrong with it. */
  readonly reason: string;
  readonly taskId?: string;
  readonly id?: string;
  readonly sequence?: number;
}

/** A checkpoint that can't be read, or that fails its seal or its digest. Repair moves it to quarantine. */
export interface RecordFinding extends Found {
  readonly kind: "record";
  /** When it was saved, as far as that can still be read. Nothing vouches for it. */
  readonly createdAt?: string;
}

/**
 * What keeps a task's last sequence can't be read, or contradicts its checkpoints. They can be read; on files, saves are
 * refused. Repair moves it to quarantine and writes it anew.
 */
export interface NumberingFinding extends Found {
  readonly kind: "numbering";
}

/** What a write has left behind that was killed. It harms nothing. Repair removes it once it is old enough. */
export interface LeftoverFinding extends Found {
  readonly kind: "leftover";
  /** When somebody last wrote to it: ISO 8601 in UTC. */
  readonly modifiedAt: string;
}

/** Something of ours in a place where nothing looks for it: a renamed file, a payload without its checkpoint. */
export interface StrayFinding extends Found {
  readonly kind: "stray";
}

/** A newer program, or another one, wrote it: it is no damage, and wasn't looked into. Repair leaves it. */
export interface RefusedFinding extends Found {
  readonly kind: "refused";
}

/** The database's own check has found this, or its log has been damaged. Repair leaves it. */
export interface DatabaseFinding extends Found {
  readonly kind: "database";
}

/** What is wrong with a storage, by `kind`. */
export type StorageFinding =
  | RecordFinding
  | NumberingFinding
  | LeftoverFinding
  | StrayFinding
  | RefusedFinding
  | DatabaseFinding;

/** One checkpoint was looked at, whole or not: for counts and progress. Those of one task come together. */
export interface CheckedRecord {
  readonly kind: "checked";
  /** Where that can be told. */
  readonly taskId?: string;
  /** Its payload's size; 0 where that can't be told. */
  readonly sizeBytes: number;
}

/** How thorough a verification is. */
export interface StorageVerification {
  /** Leaves out what takes reading each payload. */
  readonly quick: boolean;
}

/** What a repair may do. */
export interface StorageRepair {
  /** Leftovers that are younger stay: their writer may still live. */
  readonly leftoversOlderThanMs: number;
  /** Changes nothing, and tells what it would do. */
  readonly dryRun: boolean;
}

/** What a repair has done about a finding; of a dry run, what it would do. */
export type RepairStep =
  /** It was moved, byte for byte, and the reason stands beside it. `to`: where it is now. */
  | { readonly action: "quarantined"; readonly finding: RecordFinding | StrayFinding; readonly to: string }
  /** The task's numbering was written anew and goes on after `lastSequence`; `to`: where a damaged one is now. */
  | {
      readonly action: "renumbered";
      readonly finding: NumberingFinding;
      readonly to?: string;
      readonly lastSequence: number;
    }
  | { readonly action: "removed"; readonly finding: LeftoverFinding }
  /** It stays as it is; `advice`: why, and what a person can do. */
  | { readonly action: "left"; readonly finding: StorageFinding; readonly advice: string };
