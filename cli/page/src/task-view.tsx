import { useEffect, useRef, useState } from "preact/hooks";
import type { CheckpointRow } from "../../src/ui/api-parts.js";
import type { WaitInfo } from "../../src/ui/api-runs.js";
import type { TaskAnswer, TaskMessage } from "../../src/ui/api-tasks.js";
import { agoText, bytesText, countText } from "../../src/words.js";
import { CheckpointList } from "./checkpoint-list.js";
import { CommandList } from "./commands.js";
import { useKeys } from "./keys.js";
import { usePage } from "./page.js";
import { LEAST_SAVES, Plots } from "./plots.js";
import { Damage, Problem, Warnings } from "./problem.js";
import { useNow, useQuery, useWatch } from "./queries.js";
import { formatRoute } from "./route.js";
import { leaseText, placeText, StatusMark } from "./status.js";
import { StoredText } from "./stored-text.js";
import { CancelQuestion, CompleteQuestion, DeleteQuestion, RetryQuestion } from "./task-questions.js";
import { timeText } from "./times.js";
import { useAction } from "./use-action.js";
import { AnswerQuestion, Events, Waits } from "./waits.js";
import { Waterfall } from "./waterfall.js";

interface TaskViewProps {
  readonly taskId: string;
  readonly go: (fragment: string) => void;
}

export function TaskView({ taskId, go }: TaskViewProps) {
  const { api, say, session } = usePage();
  const query = useQuery("task", { taskId });
  const timeline = useQuery("timeline", { taskId });
  const events = useQuery("events", { taskId });
  const [older, setOlder] = useState<readonly TaskAnswer[]>([]);
  const [live, setLive] = useState<Extract<TaskMessage, { kind: "change" }>>();
  const [isGone, setIsGone] = useState(false);
  const [selected, setSelected] = useState(0);
  const [marked, setMarked] = useMark(taskId);
  const { question, ask } = useAction();
  const nowMs = useNow(1000);

  useWatch("watch-task", { taskId }, (message) => {
    if (message.kind === "gone") setIsGone(true);
    if (message.kind !== "change") return;
    setIsGone(false);
    setLive(message);
    // Buttons depend on the status, and transient checkpoints are replaced. Older rows that were asked for stay until then.
    const isNew = message.task.status !== (live?.task ?? query.answer?.task)?.status;
    if (isNew) setOlder([]);
    if (isNew || older.length === 0) query.reload();
    if (!timeline.isLoading) timeline.reload();
    events.reload();
  });

  const lastAnswer = useRef(query.answer);
  lastAnswer.current = query.answer ?? lastAnswer.current;
  // A task that was removed while it was read again is shown as it was.
  const answer = isGone ? lastAnswer.current : query.answer;
  const checkpoints = withNewest([...(answer?.checkpoints ?? []), ...older.flatMap((page) => page.checkpoints)], live);
  const beforeSequence = older.length > 0 ? older.at(-1)?.beforeSequence : answer?.beforeSequence;

  const showOlder = async () => {
    if (beforeSequence === undefined) return;
    const page = await api.ask("task", { taskId, beforeSequence });
    setOlder((pages) => [...pages, page]);
  };

  const list = useRef<HTMLDivElement>(null);
  const select = (index: number) => {
    const next = Math.max(0, Math.min(checkpoints.length - 1, index));
    setSelected(next);
    list.current?.querySelector(`[data-row="${next}"]`)?.scrollIntoView({ block: "nearest" });
  };
  const chosen = checkpoints[selected];
  const open = (checkpoint: Pick<CheckpointRow, "id"> | undefined) => {
    if (checkpoint) go(formatRoute({ view: "checkpoint", taskId, id: checkpoint.id }));
  };
  const compare = () => {
    if (chosen === undefined) return;
    const { id } = chosen;
    if (marked !== undefined && marked !== id) {
      // From old to new: the newest is the first of the list.
      const other = checkpoints.findIndex((checkpoint) => checkpoint.id === marked);
      const pair = other !== -1 && other < selected ? { from: id, to: marked } : { from: marked, to: id };
      go(formatRoute({ view: "diff", taskId, ...pair }));
    } else if (beforeSequence === undefined && selected === checkpoints.length - 1) {
      say("It is the task's first checkpoint: there is none before it.");
    } else go(formatRoute({ view: "diff", taskId, to: id }));
  };
  useKeys("Task", [
    { keys: ["j", "ArrowDown"], what: "next checkpoint", run: () => select(selected + 1) },
    { keys: ["k", "ArrowUp"], what: "checkpoint before", run: () => select(selected - 1) },
    { keys: ["Home"], what: "newest checkpoint", run: () => select(0) },
    { keys: ["End"], what: "oldest checkpoint shown", run: () => select(checkpoints.length - 1) },
    { keys: ["Enter"], what: "open the checkpoint", run: () => open(chosen) },
    { keys: ["d"], what: "what changed since the one before, or since the marked one", run: compare },
    {
      keys: ["m"],
      what: "mark the checkpoint, to compare another one with it",
      run: () => setMarked(chosen?.id === marked ? undefined : chosen?.id),
    },
    {
      keys: ["p"],
      what: "what a retention policy would keep",
      run: () => go(formatRoute({ view: "retention", taskId })),
    },
  ]);

  const task = live?.task ?? answer?.task;
  useEffect(() => {
    if (task) document.title = `${task.name} · Waymark`;
  }, [task?.name]);

  if (query.error && answer === undefined) return <Problem title="The task can't be shown" error={query.error} />;
  if (task === undefined || answer === undefined) return <p class="empty">Reading …</p>;

  const changed = () => {
    query.reload();
    timeline.reload();
    events.reload();
    setOlder([]);
  };
  const actions = {
    complete: () => ask((close) => <CompleteQuestion task={task} onClose={close} onDone={changed} />),
    delete: () => ask((close) => <DeleteQuestion task={task} onClose={close} onDone={() => go("#/tasks")} />),
    cancel: () => ask((close) => <CancelQuestion task={task} onClose={close} onDone={changed} />),
    retry: () => ask((close) => <RetryQuestion task={task} onClose={close} onDone={changed} />),
    prune: () => go(formatRoute({ view: "retention", taskId })),
  };
  const answerWait = (wait: WaitInfo) =>
    ask((close) => (
      <AnswerQuestion taskId={taskId} wait={wait} input={events.answer?.input} onClose={close} onSent={changed} />
    ));
  const { newest, runner } = task;
  const saves = timeline.answer?.saves ?? [];
  const bytes = timeline.answer && saves.reduce((sum, [, , size]) => sum + size, 0);
  const hasPlots = saves.length >= LEAST_SAVES;

  return (
    <>
      <div class="heading">
        <h1 class="mono">
          <StoredText text={task.name} />
        </h1>
        <StatusMark status={task.status} isChip />
        <div class="buttons">
          <a class="button" href={formatRoute({ view: "retention", taskId })}>
            Retention
          </a>
        </div>
      </div>
      {isGone && (
        <p class="problem failed" role="status">
          The task was removed meanwhile. This is what it was.
        </p>
      )}
      <dl class="facts">
        {runner && (
          <div>
            <dt>{runner.state === "held" ? "Run by" : "Last run by"}</dt>
            <dd>
              <StoredText text={runner.holder} />
              {session.hasLeases && <span class="soft"> · {leaseText(runner, nowMs)}</span>}
            </dd>
          </div>
        )}
        {runner?.state !== "held" && task.why !== undefined && task.why !== task.error && (
          <div>
            <dt>Why</dt>
            <dd>
              <StoredText text={task.why} />
            </dd>
          </div>
        )}
        {task.step && (
          <div>
            <dt>Last step</dt>
            <dd>
              <StoredText text={placeText(task.step, nowMs)} />
            </dd>
          </div>
        )}
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
            <dd>
              {agoText(newest.createdAt, nowMs)} <span class="soft">{timeText(newest.createdAt)} UTC</span>
            </dd>
          </div>
        )}
        <div>
          <dt>Checkpoints</dt>
          <dd>
            {countText(task.count)}
            {bytes !== undefined && <span class="soft"> · {bytesText(bytes)}</span>}
          </dd>
        </div>
      </dl>
      {task.error !== undefined && (task.status === "failed" || task.status === "cancelled") && (
        <Problem
          title={task.status === "cancelled" ? "It was cancelled" : "It failed"}
          error={{ name: "", message: task.error, causes: [] }}
        >
          {newest && (
            <p>
              <a href={formatRoute({ view: "checkpoint", taskId, id: newest.id })}>
                {task.status === "cancelled"
                  ? "Its checkpoint when it was cancelled"
                  : "The checkpoint that it failed at"}
              </a>
            </p>
          )}
        </Problem>
      )}
      {events.error && <Problem title="Its events can't be read" error={events.error} />}
      {events.answer && <Waits waits={events.answer.waits} nowMs={nowMs} onAnswer={answerWait} />}
      {task.asks.length > 0 && (
        <section class="problem paused">
          <h2>It asks</h2>
          {task.asks.map((text) => (
            <p class="mono" key={text}>
              <StoredText text={text} hasLines />
            </p>
          ))}
        </section>
      )}
      <Warnings warnings={answer.warnings} />
      <Damage damage={answer.damage} />
      <section class="card" aria-busy={timeline.isLoading}>
        <header>
          <h2>Timeline</h2>
        </header>
        {timeline.error && (
          <div class="body">
            <Problem title="The timeline can't be read" error={timeline.error} />
          </div>
        )}
        {timeline.answer?.keyMissing && (
          <div class="body">
            <Problem title="Some steps can't be opened" error={timeline.answer.keyMissing} />
          </div>
        )}
        {timeline.answer && <Waterfall taskId={taskId} timeline={timeline.answer} />}
      </section>
      {events.answer && <Events answer={events.answer} nowMs={nowMs} />}
      <div class={hasPlots ? "columns" : "column"}>
        <div class="column">
          <section class="card">
            <header>
              <h2>Checkpoints</h2>
              <span class="end small soft">
                <kbd>d</kbd> {marked === undefined ? "compares with the one before" : "compares with the marked one"}
              </span>
            </header>
            <div ref={list}>
              <CheckpointList
                taskId={taskId}
                checkpoints={checkpoints}
                damage={answer.damage}
                selected={selected}
                marked={marked}
                nowMs={nowMs}
                onSelect={setSelected}
                onOpen={open}
              />
            </div>
            {beforeSequence !== undefined && (
              <p class="empty">
                <button type="button" onClick={() => void showOlder()}>
                  Show older ones
                </button>
              </p>
            )}
          </section>
        </div>
        {hasPlots && (
          <div class="column">
            <section class="card">
              <header>
                <h2>Saves</h2>
              </header>
              <div class="body">
                <Plots
                  saves={saves}
                  onOpen={(sequence) => open(checkpoints.find((checkpoint) => checkpoint.sequence === sequence))}
                />
              </div>
            </section>
          </div>
        )}
      </div>
      <section class="card">
        <header>
          <h2>What can be done</h2>
        </header>
        <div class="body">
          <CommandList commands={answer.commands} actions={actions} />
        </div>
      </section>
      {question}
    </>
  );
}

/** The checkpoint that was marked last. It stays while its task is looked at. */
let mark: { readonly taskId: string; readonly id: string } | undefined;

function useMark(taskId: string): [string | undefined, (id: string | undefined) => void] {
  const { say } = usePage();
  const [marked, setMarked] = useState(() => (mark?.taskId === taskId ? mark.id : undefined));
  useEffect(() => {
    if (mark === undefined || mark.taskId === taskId) return;
    mark = undefined;
    say("The mark is gone: it was in another task.");
  }, [taskId]);
  const set = (id: string | undefined) => {
    mark = id === undefined ? undefined : { taskId, id };
    setMarked(id);
  };
  return [marked, set];
}

/** The list with its newest part as it is now. */
function withNewest(
  checkpoints: readonly CheckpointRow[],
  live: Extract<TaskMessage, { kind: "change" }> | undefined,
): readonly CheckpointRow[] {
  const oldest = live?.checkpoints.at(-1);
  if (live === undefined || oldest === undefined) return checkpoints;
  return [...live.checkpoints, ...checkpoints.filter(({ sequence }) => sequence < oldest.sequence)];
}
