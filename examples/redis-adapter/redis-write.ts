import { type AdapterCalls, type AppendCondition, checkLease, type RecordDraft } from "waymark/adapter";
import type { Change, RedisTasks, Seen } from "./redis-tasks.js";

/** A write to one task, and what it needs to read before it decides. */
export interface Write<Answer> {
  readonly taskId: string;
  /** The ids of the checkpoints to read. */
  readonly ids?: readonly string[];
  /** The records to write. Their events are looked up, to detect repeated ones. */
  readonly records?: readonly RecordDraft[];
  readonly condition?: AppendCondition | undefined;
  /** Decides on a change to the task as it was read. Called again if the task changes meanwhile. */
  decide(seen: Seen): Promise<{ readonly answer: Answer; readonly change?: Change }>;
}

/**
 * Decides and commits after the task's earlier calls. If another process changes the task in between, decides again.
 */
export function writeTask<Answer>(calls: AdapterCalls, tasks: RedisTasks, write: Write<Answer>): Promise<Answer> {
  const { taskId, ids, records = [], condition } = write;
  const eventIds = records.flatMap(({ id }) => (id === undefined ? [] : [id]));
  return calls.inTurn(taskId, async () => {
    for (;;) {
      const seen = await tasks.look(taskId, ids, eventIds);
      const { answer, change } = await write.decide(seen);
      const isFenced = condition?.fencingToken !== undefined;
      if (change === undefined || (await tasks.commit(seen, change, isFenced))) return answer;
    }
  });
}

/** Checks a write's fencing token. Writes without a token succeed even if the lease is damaged. */
export function checkFence(seen: Seen, condition: AppendCondition | undefined): void {
  if (condition?.fencingToken !== undefined) checkLease(seen.taskId, seen.lease(), condition);
}
