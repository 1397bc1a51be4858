import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { StepAnswer } from "../../src/ui/api-runs.js";
import type { FamilyAnswer } from "../../src/ui/api-tasks.js";
import { ChatView } from "./chat.js";
import { stepFacts } from "./failure.js";
import { childrenOf, MemberLink } from "./family.js";
import { Problem } from "./problem.js";
import { useQuery } from "./queries.js";
import { formatRoute } from "./route.js";
import { StatusMark, shownStatus } from "./status.js";
import { StoredText } from "./stored-text.js";
import type { TimelineRow } from "./timeline-rows.js";
import { durationText, timeText } from "./times.js";
import { typedText } from "./typed.js";
import { Part, Value } from "./value.js";

interface SelectionProps {
  readonly taskId: string;
  readonly row: TimelineRow;
  readonly family: FamilyAnswer | undefined;
  /** A value that changes whenever the task changes. */
  readonly change: unknown;
  /** Buttons for a checkpoint. */
  readonly buttons: (checkpoint: { readonly id: string; readonly sequence: number }) => ComponentChildren;
}

/** Shows the selected row: a step's result, error and chunks, or a checkpoint's state. */
export function Selection({ taskId, row, family, change, buttons }: SelectionProps) {
  if (row.kind === "step") return <Step key={row.key} taskId={taskId} row={row} family={family} change={change} />;
  const { checkpointId } = row;
  if (checkpointId !== undefined)
    return <Checkpoint key={checkpointId} taskId={taskId} id={checkpointId} row={row} buttons={buttons} />;
  return (
    <Pane title={<StoredText text={row.title} />}>
      {row.more !== undefined && (
        <p>
          <StoredText text={row.more} hasLines />
        </p>
      )}
      <p class="small soft">{atText(row)}</p>
    </Pane>
  );
}

interface StepProps extends Pick<SelectionProps, "taskId" | "family" | "change"> {
  readonly row: Extract<TimelineRow, { kind: "step" }>;
}

function Step({ taskId, row, family, change }: StepProps) {
  const { step, isOpen } = row;
  const { answer, error, reload } = useQuery("step", { taskId, record: step.record });
  useEffect(() => {
    // An open step may have written new chunks.
    if (isOpen) reload();
  }, [change]);
  return (
    <Pane
      title={<StoredText text={step.title} />}
      aside={
        <a href={formatRoute({ view: "checkpoint", taskId, id: step.checkpointId })}>
          State after it: @{step.sequence}
        </a>
      }
    >
      <p class="small soft">
        {answer && stepFacts(answer)} · began {atText(row)}
      </p>
      {step.question !== undefined && (
        <p>
          <StoredText text={step.question} hasLines />
        </p>
      )}
      {(family ? childrenOf(family, taskId, step) : []).map((member) => (
        <p key={member.taskId} class="child-run small">
          <span class="soft">Child run:</span> <MemberLink member={member} />
        </p>
      ))}
      {error && <Problem title="The step can't be read" error={error} />}
      {answer && <StepContent answer={answer} />}
      {(step.retriedAt?.length ?? 0) > 0 && (
        <p class="small soft">
          Tried again after {step.retriedAt?.map((at) => durationText(Date.parse(at) - row.atMs)).join(", ")}
        </p>
      )}
    </Pane>
  );
}

function StepContent({ answer: { title, result, error, chunks } }: { readonly answer: StepAnswer }) {
  return (
    <>
      {error && <Problem title="Error" error={error} />}
      {result !== undefined && (
        <div>
          <h3>Result</h3>
          <Value text={typedText(result)} label={`Result of ${title}`} />
        </div>
      )}
      {chunks.length > 0 && <Part title="Chunks" text={chunksText(chunks)} />}
      {result === undefined && error === undefined && <p class="soft">It has no result.</p>}
    </>
  );
}

/**
 * Joins the chunks in the order in which they were streamed. With several tries, a line marks the start of each try.
 */
function chunksText(chunks: StepAnswer["chunks"]): string {
  const last = chunks.at(-1)?.attempt ?? 1;
  return chunks
    .map(({ attempt, value }, index) => {
      const isNew = last > 1 && attempt !== chunks[index - 1]?.attempt;
      const text = typeof value === "string" ? value : `${typedText(value)}\n`;
      return `${isNew ? `${index === 0 ? "" : "\n"}— try ${attempt} —\n` : ""}${text}`;
    })
    .join("");
}

interface CheckpointProps extends Pick<SelectionProps, "taskId" | "buttons"> {
  readonly id: string;
  readonly row: TimelineRow;
}

function Checkpoint({ taskId, id, row, buttons }: CheckpointProps) {
  const { answer, error } = useQuery("checkpoint", { taskId, id });
  const { checkpoint } = answer ?? {};
  const { sequence, label, stage } = checkpoint ?? {};
  return (
    <Pane
      title={
        <>
          {sequence === undefined ? "Checkpoint" : `@${sequence}`} {<StoredText text={label ?? stage ?? ""} />}
        </>
      }
      aside={<a href={formatRoute({ view: "checkpoint", taskId, id })}>Open it</a>}
    >
      <p class="small soft">
        {/* The task's status shows whether it runs now. */}
        {checkpoint && checkpoint.status !== "running" && <StatusMark status={shownStatus(checkpoint)} />} {atText(row)}
      </p>
      {checkpoint && <div class="line-of-buttons">{buttons(checkpoint)}</div>}
      {error && <Problem title="The checkpoint can't be read" error={error} />}
      {answer?.error && <Problem title="Error" error={answer.error} />}
      {answer?.keyMissing && <Problem title="The state can't be opened" error={answer.keyMissing} />}
      {answer?.chat && <ChatView chat={answer.chat} />}
      {answer?.state !== undefined && (
        <div>
          <h3>State</h3>
          <Value text={typedText(answer.state)} label="State" />
        </div>
      )}
    </Pane>
  );
}

interface PaneProps {
  readonly title: ComponentChildren;
  readonly aside?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Pane({ title, aside, children }: PaneProps) {
  return (
    <>
      <header>
        <h2 aria-live="polite">{title}</h2>
        <span class="end small">{aside}</span>
      </header>
      <div class="body run">{children}</div>
    </>
  );
}

function atText({ atMs }: TimelineRow): string {
  return `${timeText(new Date(atMs).toISOString())} UTC`;
}
