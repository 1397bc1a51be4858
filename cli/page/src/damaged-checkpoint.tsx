import type { ErrorInfo } from "../../src/ui/api-parts.js";
import { CommandList } from "./commands.js";
import { usePage } from "./page.js";
import { Problem } from "./problem.js";
import { useQuery } from "./queries.js";
import { formatRoute } from "./route.js";
import { StatusMark } from "./status.js";

interface DamagedCheckpointProps {
  readonly taskId: string;
  readonly id: string;
  readonly error: ErrorInfo;
}

/** Shows why a checkpoint can't be read, the checkpoints around it, and the commands that repair it. */
export function DamagedCheckpoint({ taskId, id, error }: DamagedCheckpointProps) {
  const { session } = usePage();
  const { answer } = useQuery("task", { taskId });
  const newest = useQuery("checkpoint", { taskId }).answer?.checkpoint;
  const around = (answer?.checkpoints ?? []).filter((checkpoint) => checkpoint.id !== id);
  const isDamaged = error.code === "CHECKPOINT_CORRUPT";
  const sequence = [...(answer?.damage ?? []), ...(answer?.checkpoints ?? [])].find((one) => one.id === id)?.sequence;
  // The list is newest first.
  const before = around.find((checkpoint) => checkpoint.sequence < (sequence ?? 0));
  const after = around.findLast((checkpoint) => checkpoint.sequence > (sequence ?? Number.POSITIVE_INFINITY));
  return (
    <>
      <div class="heading">
        <h1>{sequence === undefined ? "Checkpoint" : `@${sequence}`}</h1>
        {isDamaged && <StatusMark status="damaged" isChip />}
        <div class="buttons">
          {before && (
            <a class="button" href={formatRoute({ view: "checkpoint", taskId, id: before.id })}>
              ← Before: @{before.sequence}
            </a>
          )}
          {after && (
            <a class="button" href={formatRoute({ view: "checkpoint", taskId, id: after.id })}>
              After: @{after.sequence} →
            </a>
          )}
        </div>
      </div>
      <Problem title="The checkpoint can't be shown" error={error} />
      {isDamaged && (
        <section class="card">
          <header>
            <h2>What can be done</h2>
          </header>
          <div class="body run">
            {newest && (
              <p>
                The newest checkpoint that can be read is{" "}
                <a href={formatRoute({ view: "checkpoint", taskId, id: newest.id })}>@{newest.sequence}</a>.
              </p>
            )}
            <CommandList commands={session.commands.filter(({ action }) => action !== "tasks")} />
          </div>
        </section>
      )}
    </>
  );
}
