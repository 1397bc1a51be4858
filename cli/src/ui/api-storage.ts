import type { CheckpointRow, Command, DamageInfo, ErrorInfo } from "./api-parts.js";

/** Like `RetentionPolicy` in the library. */
export interface Policy {
  readonly keepLast?: number | undefined;
  readonly keepWithinMs?: number | undefined;
  readonly keepHourly?: number | undefined;
  readonly keepDaily?: number | undefined;
  readonly keepWeekly?: number | undefined;
  readonly keepMonthly?: number | undefined;
  readonly keepStages?: readonly string[] | undefined;
  readonly timeZone?: string | undefined;
  readonly maxAgeMs?: number | undefined;
  readonly maxBytes?: number | undefined;
}

export interface RetentionRequest {
  /** Default: every task. */
  readonly taskId?: string;
  /** Only the tasks of this choice. */
  readonly choiceId?: string;
  /** Default: the configured one. */
  readonly policy?: Policy;
}

export interface RetentionAnswer {
  /** Pass it to `prune`, which applies exactly this plan. The server remembers the last few plans. */
  readonly planId: string;
  readonly policy: Policy;
  readonly plannedAt: string;
  readonly total: PlanCounts & { readonly tasks: number };
  /** The first 500 tasks that would lose something, by name. */
  readonly tasks: readonly (PlanCounts & { readonly taskId: string; readonly name: string })[];
  /** With `taskId`: every checkpoint, newest first. */
  readonly checkpoints?: readonly PlannedRow[];
  /** Warnings for people, for example that LangGraph's threads are left out. */
  readonly warnings: readonly string[];
  readonly damage: readonly DamageInfo[];
  readonly commands: readonly Command[];
}

export interface PlanCounts {
  readonly keep: number;
  readonly remove: number;
  readonly keepBytes: number;
  readonly removeBytes: number;
}

export interface PlannedRow {
  readonly checkpoint: CheckpointRow;
  readonly stays: boolean;
  /** At least one. */
  readonly reasons: readonly string[];
}

export type VerifyMessage =
  | {
      readonly kind: "progress";
      readonly tasks: number;
      readonly checkpoints: number;
      readonly records: number;
      readonly bytes: number;
      readonly findings: number;
    }
  | { readonly kind: "failed"; readonly error: ErrorInfo }
  | {
      readonly kind: "done";
      readonly tasks: number;
      readonly checkpoints: number;
      readonly records: number;
      readonly bytes: number;
      /** The first 1,000. */
      readonly findings: readonly Finding[];
      readonly total: number;
    };

export interface Finding extends DamageInfo {
  readonly kind: "damaged" | "leftover" | "refused" | "merged";
  /** When the damaged item was saved, or the leftover last written; missing if unknown. */
  readonly at?: string;
}

export interface StorageAnswer {
  readonly name: string;
  readonly kind: string;
  readonly isDurable: boolean;
  readonly isMultiProcess: boolean;
  /** The storage's size on the disk; missing if unknown. */
  readonly bytesOnDisk?: number;
  /** Missing if the storage has no quarantine. */
  readonly quarantine?: {
    /** A folder or a table. */
    readonly location: string;
    readonly total: number;
    /** The newest 200. */
    readonly records: readonly QuarantinedRecord[];
  };
  readonly commands: readonly Command[];
}

export interface QuarantinedRecord {
  /** The file, or the table and row. */
  readonly location: string;
  readonly reason?: string;
  /** When the record was moved. */
  readonly at?: string;
  readonly taskId?: string;
  readonly sequence?: number;
  readonly id?: string;
  readonly sizeBytes?: number;
}

export interface RepairAnswer {
  readonly steps: readonly {
    readonly action: "quarantined" | "removed" | "left";
    readonly finding: Finding;
    /** Where the record is now, or why it wasn't moved. */
    readonly text: string;
  }[];
  readonly commands: readonly Command[];
}
