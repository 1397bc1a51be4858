import { useEffect } from "preact/hooks";
import type { RunInfo, RunStep } from "../../src/ui/api-runs.js";
import type { CheckpointAnswer } from "../../src/ui/api-states.js";
import { agoText, bytesText } from "../../src/words.js";
import { ChatView } from "./chat.js";
import { ForkQuestion, RewindQuestion } from "./checkpoint-questions.js";
import { ActionButtons, CommandMenu } from "./commands.js";
import { DamagedCheckpoint } from "./damaged-checkpoint.js";
import { useKeys } from "./keys.js";
import { usePage } from "./page.js";
import { Damage, Problem } from "./problem.js";
import { useNow, useQuery } from "./queries.js";
import { Question } from "./question.js";
import { formatRoute } from "./route.js";
import { StateTree } from "./state-tree.js";
import { StatusMark, shownStatus } from "./status.js";
import { StoredText } from "./stored-text.js";
import { taskName } from "./task-name.js";
import { ThreadQuestions } from "./thread-parts.js";
import { durationText, timeText } from "./times.js";
import { typedText } from "./typed.js";
import { useAction } from "./use-action.js";
import { Part, Value } from "./value.js";

interface CheckpointViewProps {
  readonly taskId: string;
  readonly id: string;
  readonly go: (fragment: string) => void;
}

export function CheckpointView({ taskId, id, go }: CheckpointViewProps) {
  const { answer, error, isLoading } = useQuery("checkpoint", { taskId, id });
  const { say } = usePage();
  const isFirst = answer !== undefined && answer.before === undefined;
  const nowMs = useNow(10_000);
  const openId = (next: string | undefined) => {
    if (next !== undefined) go(formatRoute({ view: "checkpoint", taskId, id: next }));
  };
  useKeys("Checkpoint", [
    { keys: ["["], what: "the previous checkpoint", run: () => openId(answer?.before?.id) },
    { keys: ["]"], what: "the next checkpoint", run: () => openId(answer?.after?.id) },
    {
      keys: ["d"],
      what: "what changed since the step before",
      run: () => {
        if (isFirst) say("This is the task's first checkpoint: there is none before it.");
        else go(formatRoute({ view: "diff", taskId, to: id }));
      },
    },
  ]);
  useEffect(() => {
    if (answer) document.title = `@${answer.checkpoint.sequence} · ${taskName(answer.name)} · Waymark`;
  }, [answer]);

  if (error) return <DamagedCheckpoint taskId={taskId} id={id} error={error} />;
  if (answer === undefined) return <p class="empty">Reading …</p>;
  const { checkpoint, before, after, run } = answer;
  const { sequence, stage, label, createdAt, sizeBytes, kind, parentId, forkedFrom, stateVersion } = checkpoint;
  return (
    <>
      <div class="heading" aria-busy={isLoading}>
        <h1>
          @{sequence} {label !== undefined && <StoredText text={label} />}
          {label === undefined && stage !== undefined && <StoredText text={stage} />}
        </h1>
        <StatusMark status={shownStatus(checkpoint)} isChip />
        <div class="buttons">
          <button type="button" disabled={before === undefined} onClick={() => openId(before?.id)}>
            ← Before <kbd>[</kbd>
          </button>
          <button type="button" disabled={after === undefined} onClick={() => openId(after?.id)}>
            After → <kbd>]</kbd>
          </button>
          <button
            type="button"
            disabled={isFirst}
            onClick={() => go(formatRoute({ view: "diff", taskId, to: checkpoint.id }))}
          >
            Changes <kbd>d</kbd>
          </button>
          <CheckpointActions key={id} answer={answer} go={go} />
        </div>
      </div>
      <dl class="facts">
        <div>
          <dt>Saved</dt>
          <dd>
            {agoText(createdAt, nowMs)} <span class="soft">{timeText(createdAt)} UTC</span>
          </dd>
        </div>
        {stage !== undefined && label !== undefined && (
          <div>
            <dt>Stage</dt>
            <dd>
              <StoredText text={stage} />
            </dd>
          </div>
        )}
        <div>
          <dt>Bytes</dt>
          <dd>{bytesText(sizeBytes)}</dd>
        </div>
        <div>
          <dt>Kind</dt>
          <dd>{kind === "transient" ? "transient: retention rules don't count it" : "milestone"}</dd>
        </div>
        {parentId !== undefined && (
          <div>
            <dt>Continues</dt>
            <dd>
              <a class="mono" href={formatRoute({ view: "checkpoint", taskId, id: parentId })}>
                <StoredText text={parentId} />
              </a>
            </dd>
          </div>
        )}
        {forkedFrom && (
          <div>
            <dt>Forked from</dt>
            <dd>
              <a href={formatRoute({ view: "checkpoint", ...forkedFrom })}>
                <StoredText text={taskName(forkedFrom.taskId)} />
              </a>
            </dd>
          </div>
        )}
        {stateVersion > 0 && (
          <div>
            <dt>State version</dt>
            <dd>{stateVersion}</dd>
          </div>
        )}
        {answer.namespace !== undefined && answer.namespace !== "" && (
          <div>
            <dt>Subgraph</dt>
            <dd>
              <StoredText text={answer.namespace} />
            </dd>
          </div>
        )}
        <div>
          <dt>Id</dt>
          <dd class="mono">
            <StoredText text={checkpoint.id} />
          </dd>
        </div>
      </dl>
      {answer.error && <Problem title={errorTitle(checkpoint)} error={answer.error} />}
      {answer.asks.length > 0 && <ThreadQuestions asks={answer.asks} commands={[]} />}
      <Damage damage={answer.damage} />
      <div class={run || answer.chat || answer.metadata !== undefined ? "columns" : "column"}>
        <div class="column">
          {answer.keyMissing && <Problem title="The state can't be opened" error={answer.keyMissing} />}
          {answer.state !== undefined && (
            <StateTree key={checkpoint.id} taskId={taskId} id={checkpoint.id} state={answer.state} />
          )}
        </div>
        <div class="column">
          {answer.chat && (
            <section class="card">
              <header>
                <h2>Messages</h2>
              </header>
              <div class="body">
                <ChatView chat={answer.chat} />
              </div>
            </section>
          )}
          {run && <Run run={run} />}
          {answer.metadata !== undefined && (
            <section class="card">
              <header>
                <h2>Metadata</h2>
              </header>
              <div class="body">
                <Value text={typedText(answer.metadata)} label="Metadata" />
              </div>
            </section>
          )}
        </div>
      </div>
    </>
  );
}

function errorTitle({ status, isCancelled }: CheckpointAnswer["checkpoint"]): string {
  if (isCancelled) return "It was cancelled";
  return status === "failed" ? "It failed" : "Its error";
}

function Run({ run }: { readonly run: RunInfo }) {
  return (
    <section class="card">
      <header>
        <h2>Run</h2>
        <span class="small soft">
          attempt {run.attempt}, turn {run.turn}
          {run.isTurnOver && " (over)"}
          {run.version !== undefined && (
            <>
              , version <StoredText text={String(run.version)} />
            </>
          )}
        </span>
      </header>
      <div class="body run">
        {run.input !== undefined && <Part title="Input" text={typedText(run.input)} />}
        {run.result !== undefined && <Part title="Result" text={typedText(run.result)} />}
        {run.steps.length === 0 && <p class="soft">No step of this turn is recorded.</p>}
        {run.steps.map((step, index) => (
          <Step key={index} step={step} />
        ))}
      </div>
    </section>
  );
}

function Step({ step }: { readonly step: RunStep }) {
  const { title, status, durationMs, attempts = 1, runAttempt, result, error, waitsFor, question } = step;
  const tone = { completed: "completed", failed: "failed", started: "paused", interrupted: "failed", saved: "saved" }[
    status
  ];
  const facts = [
    ...(status === "started"
      ? [waitsFor === undefined ? "not finished" : question === undefined ? "waits" : `waits: ${question}`]
      : []),
    ...(durationMs === undefined ? [] : [durationText(durationMs)]),
    ...(attempts > 1 ? [`${attempts} tries`] : []),
    ...(step.hasTimedOut ? ["timed out"] : []),
    ...(status === "saved" ? [] : [`${describeState(step)}attempt ${runAttempt}`]),
  ];
  const value = error ?? result;
  const head = (
    <>
      <strong class={`step-title ${tone}`}>
        <StoredText text={status === "saved" ? `saved ${step.name}` : title} />
      </strong>{" "}
      <span class="small soft">
        {(status === "failed" || status === "interrupted") && `${status} · `}
        {facts.join(" · ")}
      </span>
    </>
  );
  if (value === undefined) {
    return <p class="step">{head}</p>;
  }
  return (
    <details class="step" open={status === "failed"}>
      <summary>{head}</summary>
      <Value text={typedText(value)} label={`${error === undefined ? "Result" : "Error"} of ${title}`} />
    </details>
  );
}

/** Returns `from storage, `, `ran, ` or `waited, `; an empty text for a step that never finished. */
function describeState({ status, from, waitsFor }: RunStep): string {
  if (status === "started") return "";
  if (from === "storage") return "from storage, ";
  return waitsFor === undefined ? "ran, " : "waited, ";
}

interface CheckpointActionsProps {
  readonly answer: CheckpointAnswer;
  readonly go: (fragment: string) => void;
}

/** The buttons and commands for a checkpoint. */
function CheckpointActions({ answer, go }: CheckpointActionsProps) {
  const { api, say } = usePage();
  const { question, ask } = useAction();
  const { taskId, checkpoint, runner } = answer;
  const { id, sequence } = checkpoint;
  const actions = {
    fork: () => ask((close) => <ForkQuestion task={answer} checkpoint={checkpoint} onClose={close} go={go} />),
    rewind: () => ask((close) => <RewindQuestion task={answer} checkpoint={checkpoint} onClose={close} go={go} />),
    delete: () =>
      ask((close) => (
        <Question
          title={`Remove checkpoint @${sequence}?`}
          confirmText="Remove"
          isDangerous
          runner={runner}
          onClose={close}
          onConfirm={async (options) => {
            await api.ask("delete", { taskId, id, ...options });
            go(formatRoute({ view: "task", taskId }));
            say(`Removed @${sequence}.`);
          }}
        >
          <p>The task's other checkpoints stay as they are. This can't be undone.</p>
        </Question>
      )),
  };
  return (
    <>
      <ActionButtons commands={answer.commands} actions={actions} />
      <CommandMenu commands={answer.commands} actions={actions} />
      {question}
    </>
  );
}
