import { type AdapterCalls, type AppendCondition, checkLease, type RecordDraft } from "waymark/adapter";
import type { Change, RedisTasks, Seen } from "./redis-tasks.js";

/** A write of one task, and what it needs to know before it decides. */
export interface Write<Answer> {
  readonly taskId: string;
  /** The checkpoints to look at. */
  readonly ids?: readonly string[];
  /** Their events are looked up, to find repeated ones. */
  readonly records?: readonly RecordDraft[];
  readonly condition?: AppendCondition | undefined;
  /** Decides from what it sees. May be called again. */
  decide(seen: Seen): Promise<{ readonly answer: Answer; readonly change?: Change }>;
}

/** Decides and commits, after the task's earlier calls. If another process changes the task in between, it decides again. */
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

/** A damaged lease doesn't hinder writes without a token. */
export function checkFence(seen: Seen, condition: AppendCondition | undefined): void {
  if (condition?.fencingToken !== undefined) checkLease(seen.taskId, seen.lease(), condition);
}
