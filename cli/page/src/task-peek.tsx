import type { TaskRow } from "../../src/ui/api-tasks.js";
import { bytesText, countText } from "../../src/words.js";
import { formatRoute } from "./route.js";
import { leaseText, placeText, StatusMark } from "./status.js";
import { StoredText } from "./stored-text.js";
import { timeText } from "./times.js";

/** Shows the chosen task in full: its row may cut long texts. */
export function Peek({ task, nowMs }: { readonly task: TaskRow; readonly nowMs: number }) {
  const { taskId, name, newest, runner, error, asks, count } = task;
  const reason = describeReason(task, nowMs);
  return (
    <section class="peek" aria-label="The chosen task">
      <dl class="facts">
        <div>
          <dt>Task</dt>
          <dd>
            <a class="mono" href={formatRoute({ view: "task", taskId })}>
              <StoredText text={name} />
            </a>
          </dd>
        </div>
        <div>
          <dt>Status</dt>
          <dd>
            <StatusMark status={task.status} />
          </dd>
        </div>
        {newest && (
          <>
            <div>
              <dt>Newest</dt>
              <dd>
                @{newest.sequence}
                {newest.stage !== undefined && (
                  <>
                    {" "}
                    <StoredText text={newest.stage} />
                  </>
                )}
                {newest.label !== undefined && (
                  <>
                    {" "}
                    “<StoredText text={newest.label} />”
                  </>
                )}
                , {bytesText(newest.sizeBytes)}, {timeText(newest.createdAt)} UTC
              </dd>
            </div>
            <div>
              <dt>Checkpoints</dt>
              <dd>{countText(count)}</dd>
            </div>
          </>
        )}
        {reason !== "" && (
          <div>
            <dt>{runner?.state === "held" ? "Runs" : "Why"}</dt>
            <dd>
              <StoredText text={reason} />
            </dd>
          </div>
        )}
        {error !== undefined && error !== reason && (
          <div>
            <dt>Error</dt>
            <dd>
              <StoredText text={error} />
            </dd>
          </div>
        )}
        {asks.length > 0 && (
          <div>
            <dt>Asks</dt>
            <dd class="mono">
              <StoredText text={asks.join(" · ")} />
            </dd>
          </div>
        )}
      </dl>
    </section>
  );
}

/** Returns the step that the task's run is in, or else the newest checkpoint's label or stage. */
export function describePlace({ newest, step }: TaskRow, nowMs: number): string {
  return step === undefined ? (newest?.label ?? newest?.stage ?? "") : placeText(step, nowMs);
}

export function describeReason({ runner, why, error }: TaskRow, nowMs: number): string {
  if (runner?.state === "held") return `${runner.holder} · ${leaseText(runner, nowMs)}`;
  return why ?? error ?? "";
}

/** Whether a person should look at the task: it failed, or its runner is gone. */
export function isBad({ status, runner }: TaskRow): boolean {
  return status === "failed" || runner?.state === "died" || runner?.state === "expired";
}
