import type { ComponentChildren } from "preact";
import type { DamageInfo } from "../../src/ui/api-parts.js";
import type { FamilyAnswer, TaskRow } from "../../src/ui/api-tasks.js";
import { agoText, bytesText, countText } from "../../src/words.js";
import { SourceLink } from "./family.js";
import { usePage } from "./page.js";
import { formatRoute } from "./route.js";
import { leaseText, placeText, StatusMark } from "./status.js";
import { StoredText } from "./stored-text.js";
import { taskName } from "./task-name.js";
import { timeText } from "./times.js";

interface TaskHeaderProps {
  readonly task: TaskRow;
  readonly family: FamilyAnswer | undefined;
  readonly damage: readonly DamageInfo[];
  readonly nowMs: number;
  readonly children: ComponentChildren;
}

/** Shows a task's name, status, age, runner and buttons. */
export function TaskHeader({ task, family, damage, nowMs, children }: TaskHeaderProps) {
  const { session } = usePage();
  const { name, status, newest, runner, why, error, step, lastAt } = task;
  const at = lastAt ?? newest?.createdAt;
  const isNewestDamaged = damage.some(({ sequence = 0 }) => sequence >= (newest?.sequence ?? 0));
  const facts = [
    at && <span title={`${timeText(at)} UTC`}>{agoText(at, nowMs)}</span>,
    runner && (
      <>
        {runner.state === "held" ? "run by " : "last run by "}
        <StoredText text={runner.holder} />
        {session.hasLeases && `, ${leaseText(runner, nowMs)}`}
      </>
    ),
    runner?.state !== "held" && why !== undefined && why !== error && why !== status && <StoredText text={why} />,
    step && <StoredText text={placeText(step, nowMs)} />,
  ].filter((fact) => fact);
  return (
    <div class="heading">
      <h1 class="mono">
        <StoredText text={taskName(name)} />
      </h1>
      <StatusMark status={isNewestDamaged ? "damaged" : status} isChip />
      <p class="lead small soft">
        {facts.map((fact, index) => (
          <span key={index}>{fact}</span>
        ))}
        {family && <SourceLink family={family} taskId={task.taskId} />}
      </p>
      <div class="buttons">{children}</div>
    </div>
  );
}

/** Shows a task's newest checkpoint, and the number and size of its checkpoints. */
export function TaskFacts({ task, bytes }: { readonly task: TaskRow; readonly bytes: number | undefined }) {
  const { taskId, newest, count } = task;
  return (
    <dl class="facts">
      {newest && (
        <div>
          <dt>Newest checkpoint</dt>
          <dd>
            <a href={formatRoute({ view: "checkpoint", taskId, id: newest.id })}>@{newest.sequence}</a>{" "}
            <StoredText text={newest.label ?? newest.stage ?? ""} />
          </dd>
        </div>
      )}
      {newest && (
        <div>
          <dt>Saved</dt>
          <dd>{timeText(newest.createdAt)} UTC</dd>
        </div>
      )}
      <div>
        <dt>Checkpoints</dt>
        <dd>
          {countText(count)}
          {bytes !== undefined && <span class="soft"> · {bytesText(bytes)}</span>}
        </dd>
      </div>
    </dl>
  );
}
