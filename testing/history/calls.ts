import type { CheckpointQuery } from "../../src/contract/adapter.js";
import type { AppendCondition } from "../../src/contract/conditions.js";
import type { CheckpointErrorCode } from "../../src/contract/errors.js";
import type { RecordKind, RecordQuery, RecordSelection } from "../../src/contract/log.js";

/** A record or checkpoint, as one call wrote it or another one read it. */
export interface HistoryItem {
  readonly kind: RecordKind | "checkpoint";
  /** Of a checkpoint or an event. */
  readonly id?: string;
  readonly name?: string;
  readonly recordKey?: string;
  readonly createdAt: string;
  /** The SHA-256 of its stored payload, unless it was read without one. */
  readonly sha256?: string;
  /** Of a `run` record: the sequences of the results that it drops. */
  readonly dropped?: readonly (readonly [first: number, last: number])[];
  /** Of a run's checkpoint: where the run stands. */
  readonly run?: {
    readonly generation: string;
    readonly turn: number;
    /** The ranges of sequences whose events it had received; missing for none. */
    readonly received?: readonly (readonly [first: number, last: number])[];
  };
}

/** An item with its sequence, which the storage gave it. */
export interface SeenItem extends HistoryItem {
  readonly sequence: number;
}

/** What a call did, and its answer. The answer is missing if the call failed, or its process was killed before. */
export type HistoryAction =
  | {
      /** `append` and `log.append`. */
      readonly is: "append";
      /** In the order of their sequences: records, then the checkpoint if there is one. */
      readonly items: readonly HistoryItem[];
      readonly condition?: AppendCondition;
      /** The transient checkpoint that it removes. */
      readonly replaces?: string;
      /** Whether the records needn't survive a power cut yet. */
      readonly isLazy?: boolean;
      /** Whether it asked for a sequence. */
      readonly isExact?: boolean;
      /** The answer: the sequence of the last item. */
      readonly sequence?: number;
    }
  | {
      readonly is: "setStatus";
      readonly id: string;
      readonly items: readonly HistoryItem[];
      readonly condition?: AppendCondition;
      readonly isChanged?: boolean;
    }
  | {
      /** `read`, `list`, `get` and `log.read`. */
      readonly is: "read";
      /** Of `get`: the checkpoint's id. */
      readonly id?: string;
      readonly query: Pick<
        CheckpointQuery,
        "beforeSequence" | "afterSequence" | "stage" | "status" | "skip" | "limit"
      > &
        Pick<RecordQuery, "kinds" | "name"> & { readonly order: "newest" | "oldest" };
      /** The answer, up to where the caller read. */
      readonly items?: readonly SeenItem[];
      /** Whether the caller read to the end. */
      readonly isWhole?: boolean;
    }
  | {
      /** `replacePayload` and `log.replacePayloads`. */
      readonly is: "replace";
      readonly changes: readonly {
        /** The checkpoint's id, or the record's sequence. */
        readonly of: string | number;
        readonly sha256: string;
        readonly expectedSha256: string;
      }[];
    }
  | {
      readonly is: "remove";
      /** Checkpoints by their ids, records by a selection, or everything. */
      readonly what: readonly string[] | RecordSelection | "all";
      /** `removePrefix`: it removes all tasks whose ids begin with `taskId`. */
      readonly isPrefix?: boolean;
      readonly condition?: AppendCondition;
      readonly count?: number;
    }
  | {
      /** `claim` and `claimNext`. */
      readonly is: "claim";
      readonly holder: string;
      readonly ttlMs: number;
      readonly isForced?: boolean;
      /** The answer; `undefined` if it was refused. */
      readonly token?: number;
    }
  | { readonly is: "renew"; readonly token: number; readonly ttlMs: number; readonly isRenewed?: boolean }
  | { readonly is: "release"; readonly token: number }
  /**
   * The machine or the database server stopped, so that lazy records may be lost that no durable write followed. Of no
   * task: `taskId` is empty.
   */
  | { readonly is: "crash" };

/** A call of a storage by one process. */
export interface HistoryCall {
  /** The name of the process. */
  readonly process: string;
  readonly taskId: string;
  /** In milliseconds, by one clock for all processes: on one machine, `process.hrtime`. */
  readonly beginMs: number;
  /** Missing if there was no answer, because the process was killed or is still waiting. */
  readonly endMs?: number;
  readonly action: HistoryAction;
  /** The code of the error with which it was rejected. */
  readonly error?: CheckpointErrorCode | "OTHER";
}
