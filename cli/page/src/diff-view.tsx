import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { CheckpointRow, Typed } from "../../src/ui/api-parts.js";
import type { Change } from "../../src/ui/api-states.js";
import { agoText, bytesText, counted, countText } from "../../src/words.js";
import { changedText } from "./changed-text.js";
import { CommandMenu } from "./commands.js";
import { useKeys } from "./keys.js";
import { Problem } from "./problem.js";
import { useNow, useQuery } from "./queries.js";
import { formatRoute } from "./route.js";
import { StatusMark, shownStatus } from "./status.js";
import { StoredText } from "./stored-text.js";
import { typedText } from "./typed.js";

interface DiffViewProps {
  readonly taskId: string;
  readonly from?: string;
  readonly to: string;
  readonly fromTaskId?: string;
  readonly go: (fragment: string) => void;
}

export function DiffView({ taskId, from, to, fromTaskId, go }: DiffViewProps) {
  const { answer, error, isLoading } = useQuery("diff", {
    taskId,
    to,
    ...(from !== undefined && { from }),
    ...(fromTaskId !== undefined && { fromTaskId }),
  });
  const neighbours = useQuery("checkpoint", { taskId, id: to }).answer;
  const show = (id: string | undefined) => {
    if (id !== undefined) go(formatRoute({ view: "diff", taskId, to: id }));
  };
  const swap = () => {
    if (answer === undefined) return;
    const other = fromTaskId === undefined ? { taskId } : { taskId: fromTaskId, fromTaskId: taskId };
    go(formatRoute({ view: "diff", ...other, from: answer.to.id, to: answer.from.id }));
  };
  useKeys("Two checkpoints", [
    { keys: ["["], what: "the changes of the previous checkpoint", run: () => show(neighbours?.before?.id) },
    { keys: ["]"], what: "the changes of the next checkpoint", run: () => show(neighbours?.after?.id) },
    { keys: ["d"], what: "since the step before", run: () => show(to) },
    { keys: ["x"], what: "swap the two", run: swap },
  ]);
  useEffect(() => {
    if (answer) document.title = `@${answer.from.sequence} → @${answer.to.sequence} · Waymark`;
  }, [answer]);

  if (error) return <Problem title="The checkpoints can't be compared" error={error} />;
  if (answer === undefined) return <p class="empty">Reading …</p>;
  const { changes, total } = answer;
  return (
    <>
      <div class="heading" aria-busy={isLoading}>
        <h1>
          @{answer.from.sequence} → @{answer.to.sequence}
        </h1>
        <p class="soft" role="status">
          {total === 0 ? "The states are equal." : counted(total, "change")}
          {answer.besides.length > 0 && (
            <>
              {" "}
              Changed besides the state: <StoredText text={answer.besides.join(", ")} />
            </>
          )}
        </p>
        <div class="buttons">
          <button
            type="button"
            disabled={neighbours?.before === undefined}
            onClick={() => show(neighbours?.before?.id)}
          >
            ← Before <kbd>[</kbd>
          </button>
          <button type="button" disabled={neighbours?.after === undefined} onClick={() => show(neighbours?.after?.id)}>
            After → <kbd>]</kbd>
          </button>
          <button type="button" onClick={swap}>
            Swap <kbd>x</kbd>
          </button>
          {from !== undefined && (
            <button type="button" onClick={() => show(to)}>
              Since the step before <kbd>d</kbd>
            </button>
          )}
          {answer.commands.length > 0 && <CommandMenu commands={answer.commands} />}
        </div>
      </div>
      <div class="sides">
        <Side title="From" taskId={fromTaskId ?? taskId} checkpoint={answer.from} isNamed={fromTaskId !== undefined} />
        <Side title="To" taskId={taskId} checkpoint={answer.to} isNamed={fromTaskId !== undefined} />
      </div>
      {total > 0 && (
        <section class="card">
          <header>
            <h2>Changes</h2>
            {changes.length < total && (
              <span class="small soft">
                the first {countText(changes.length)} of {countText(total)}; the command prints all
              </span>
            )}
          </header>
          <table class="changes">
            <thead>
              <tr>
                <th scope="col" class="path">
                  Where
                </th>
                <th scope="col">@{answer.from.sequence}</th>
                <th scope="col">@{answer.to.sequence}</th>
              </tr>
            </thead>
            <tbody>
              {changes.map((change, index) => (
                <ChangeRow key={index} change={change} />
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
}

interface SideProps {
  readonly title: string;
  readonly taskId: string;
  readonly checkpoint: CheckpointRow;
  /** Whether to name the task. */
  readonly isNamed: boolean;
}

function Side({ title, taskId, checkpoint, isNamed }: SideProps) {
  const { id, sequence, stage, label, createdAt, sizeBytes } = checkpoint;
  const nowMs = useNow(10_000);
  return (
    <section class="card body-only">
      <h2>
        <span class="soft">{title}</span> <a href={formatRoute({ view: "checkpoint", taskId, id })}>@{sequence}</a>{" "}
        <StatusMark status={shownStatus(checkpoint)} />
      </h2>
      {isNamed && (
        <p class="anywhere">
          <a class="mono" href={formatRoute({ view: "task", taskId })}>
            <StoredText text={taskId} />
          </a>
        </p>
      )}
      <p class="anywhere">
        <StoredText text={label ?? stage ?? ""} />
      </p>
      <p class="small soft">
        {agoText(createdAt, nowMs)}, {bytesText(sizeBytes)}
      </p>
    </section>
  );
}

function ChangeRow({ change }: { readonly change: Change }) {
  const where = (
    <td class="path">
      <StoredText text={change.text === "" ? "$" : change.text} />
    </td>
  );
  switch (change.kind) {
    case "added":
      return (
        <tr>
          {where}
          <td class="gone none">not there</td>
          <Came value={change.to} />
        </tr>
      );
    case "removed":
      return (
        <tr>
          {where}
          <Gone value={change.from} />
          <td class="came none">removed</td>
        </tr>
      );
    case "moved":
      return (
        <tr>
          {where}
          <td class="gone none">was here</td>
          <td class="came none">moved to [{change.toIndex}]</td>
        </tr>
      );
    case "changed":
      return <Changed where={where} from={change.from} to={change.to} />;
  }
}

function Changed({ where, from, to }: { readonly where: ComponentChildren; readonly from: Typed; readonly to: Typed }) {
  const { start, from: old, to: now, end } = changedText(typedText(from), typedText(to));
  return (
    <tr>
      {where}
      <td class="gone">
        <Sign text="−" name="before:" />
        <StoredText text={start} hasLines />
        {old !== "" && (
          <mark>
            <StoredText text={old} hasLines />
          </mark>
        )}
        <StoredText text={end} hasLines />
      </td>
      <td class="came">
        <Sign text="+" name="after:" />
        <StoredText text={start} hasLines />
        {now !== "" && (
          <mark>
            <StoredText text={now} hasLines />
          </mark>
        )}
        <StoredText text={end} hasLines />
      </td>
    </tr>
  );
}

function Gone({ value }: { readonly value: Typed }) {
  return (
    <td class="gone">
      <Sign text="−" name="before:" />
      <StoredText text={typedText(value)} hasLines />
    </td>
  );
}

function Came({ value }: { readonly value: Typed }) {
  return (
    <td class="came">
      <Sign text="+" name="after:" />
      <StoredText text={typedText(value)} hasLines />
    </td>
  );
}

function Sign({ text, name }: { readonly text: string; readonly name: string }) {
  return (
    <>
      <span class="sign" aria-hidden="true">
        {text}
      </span>
      <span class="only-read">{name} </span>
    </>
  );
}
