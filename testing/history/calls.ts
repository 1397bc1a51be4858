import type { CheckpointQuery } from "../../src/contract/adapter.js";
import type { AppendCondition } from "../../src/contract/conditions.js";
import type { CheckpointErrorCode } from "../../src/contract/errors.js";
import type { RecordKind, RecordQuery, RecordSelection } from "../../src/contract/log.js";

/** A record or checkpoint that a call wrote or read. */
export interface HistoryItem {
  readonly kind: RecordKind | "checkpoint";
  /** Set for checkpoints and events. */
  readonly id?: string;
  readonly name?: string;
  readonly recordKey?: string;
  readonly createdAt: string;
  /** The SHA-256 of the stored payload; missing if the item was read without its payload. */
  readonly sha256?: string;
  /**
   * Set for `run` records: the ranges of sequences whose results the record drops. `unknown`: the payload is compressed or
   * encrypted.
   */
  readonly dropped?: readonly (readonly [first: number, last: number])[] | "unknown";
  /** Set for checkpoints of a run: the run's generation and turn, and the events that it has received. */
  readonly run?: {
    readonly generation: string;
    readonly turn: number;
    /** The ranges of sequences whose events the run had received; missing if there were none. */
    readonly received?: readonly (readonly [first: number, last: number])[];
  };
}

/** An item with the sequence that the storage assigned to it. */
export interface SeenItem extends HistoryItem {
  readonly sequence: number;
}

/** A call's action and answer. The answer is missing if the call failed or its process was killed before the answer. */
export type HistoryAction =
  | {
      /** A call of `append` or `log.append`. */
      readonly is: "append";
      /** The stored items in the order of their sequences: records, then the checkpoint if there is one. */
      readonly items: readonly HistoryItem[];
      readonly condition?: AppendCondition;
      /** The id of the transient checkpoint that the call removes. */
      readonly replaces?: string;
      /** Whether the records needn't survive a power cut before the next durable append. */
      readonly isLazy?: boolean;
      /** Whether the call asked for a certain sequence. */
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
      /** A call of `read`, `list`, `get` or `log.read`. */
      readonly is: "read";
      /** Set for `get`: the checkpoint's id. */
      readonly id?: string;
      readonly query: Pick<
        CheckpointQuery,
        "beforeSequence" | "afterSequence" | "stage" | "status" | "skip" | "limit"
      > &
        Pick<RecordQuery, "kinds" | "name"> & { readonly order: "newest" | "oldest" };
      /** The answer, as far as the caller read it. */
      readonly items?: readonly SeenItem[];
      /** Whether the caller read to the end. */
      readonly isWhole?: boolean;
    }
  | {
      /** A call of `replacePayload` or `log.replacePayloads`. */
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
      /** Whether the call is `removePrefix`, which removes all tasks whose ids begin with `taskId`. */
      readonly isPrefix?: boolean;
      readonly condition?: AppendCondition;
      readonly count?: number;
    }
  | {
      /** A call of `claim`, or one task that `claimNext` claimed. */
      readonly is: "claim";
      readonly holder: string;
      readonly ttlMs: number;
      readonly isForced?: boolean;
      /** The answer; `undefined` if the claim was refused. */
      readonly token?: number;
    }
  | { readonly is: "renew"; readonly token: number; readonly ttlMs: number; readonly isRenewed?: boolean }
  | { readonly is: "release"; readonly token: number }
  /**
   * The machine or the database server stopped. Lazy records that no durable write followed may be lost. `taskId` is
   * empty, because a crash belongs to no task.
   */
  | { readonly is: "crash" };

/** A storage call of one process. */
export interface HistoryCall {
  /** The name of the process. */
  readonly process: string;
  readonly taskId: string;
  /** In milliseconds, by a clock that all processes share: on one machine, `process.hrtime`. */
  readonly beginMs: number;
  /** Missing if the call had no answer, because its process was killed or is still waiting. */
  readonly endMs?: number;
  readonly action: HistoryAction;
  /** The code of the error with which the call was rejected. */
  readonly error?: CheckpointErrorCode | "OTHER";
}
