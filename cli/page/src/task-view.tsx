import { useEffect, useRef, useState } from "preact/hooks";
import type { CheckpointRow } from "../../src/ui/api-parts.js";
import type { WaitInfo } from "../../src/ui/api-runs.js";
import type { TaskAnswer, TaskMessage } from "../../src/ui/api-tasks.js";
import { sumUsage, usageText } from "../../src/usage.js";
import { AnswerQuestion } from "./answer-question.js";
import { errorInfo } from "./api.js";
import { CheckpointList } from "./checkpoint-list.js";
import { ForkQuestion, RewindQuestion } from "./checkpoint-questions.js";
import { ActionButtons, CommandMenu } from "./commands.js";
import { CompareMarked, type Point, PointButtons, useComparison } from "./comparison.js";
import { download } from "./download.js";
import { Failure } from "./failure.js";
import { Family } from "./family.js";
import { useKeys } from "./keys.js";
import { usePage } from "./page.js";
import { LEAST_SAVES, Plots } from "./plots.js";
import { Damage, mergeDamage, Problem, Warnings } from "./problem.js";
import { useNow, useQuery, useRefresh, useWatch } from "./queries.js";
import { formatRoute } from "./route.js";
import { Pane, Selection } from "./selection.js";
import { TaskFacts, TaskHeader } from "./task-header.js";
import { taskName } from "./task-name.js";
import { CancelQuestion, CompleteQuestion, DeleteQuestion, RetryQuestion } from "./task-questions.js";
import { ThreadChat, ThreadQuestions } from "./thread-parts.js";
import { Timeline } from "./timeline.js";
import type { TimelineRow } from "./timeline-rows.js";
import { useAction } from "./use-action.js";
import { useTimeline } from "./use-timeline.js";
import { Events, Waits } from "./waits.js";

interface TaskViewProps {
  readonly taskId: string;
  /** The sequence of the selected step or checkpoint. */
  readonly at?: number;
  readonly go: (fragment: string, options?: { readonly replace?: boolean }) => void;
}

const FIRST_CHECKPOINTS = 30;

export function TaskView({ taskId, at, go }: TaskViewProps) {
  const { api, say, session } = usePage();
  const query = useQuery("task", { taskId, limit: FIRST_CHECKPOINTS });
  const timeline = useQuery("timeline", { taskId });
  const events = useQuery("events", { taskId });
  const family = useQuery("family", { taskId });
  const refreshFamily = useRefresh(family);
  const [older, setOlder] = useState<readonly TaskAnswer[]>([]);
  const [live, setLive] = useState<Extract<TaskMessage, { kind: "change" }>>();
  const [isGone, setIsGone] = useState(false);
  const comparison = useComparison(taskId);
  const { question, ask } = useAction();
  const nowMs = useNow(1000);

  useWatch("watch-task", { taskId }, (message) => {
    if (message.kind === "gone") setIsGone(true);
    if (message.kind !== "change") return;
    setIsGone(false);
    setLive(message);
    // Buttons depend on the status, and transient checkpoints are replaced. Until the status changes, older rows that
    // were loaded stay.
    const isNew = message.task.status !== (live?.task ?? query.answer?.task)?.status;
    if (isNew) setOlder([]);
    if (isNew || older.length === 0) query.reload();
    if (!timeline.isLoading) timeline.reload();
    events.reload();
    refreshFamily();
  });

  const lastAnswer = useRef(query.answer);
  lastAnswer.current = query.answer ?? lastAnswer.current;
  // If the task was removed while it was read again, its last answer is still shown.
  const answer = isGone ? lastAnswer.current : query.answer;
  const checkpoints = withNewest([...(answer?.checkpoints ?? []), ...older.flatMap((page) => page.checkpoints)], live);
  const beforeSequence = older.length > 0 ? older.at(-1)?.beforeSequence : answer?.beforeSequence;
  const task = live?.task ?? answer?.task;
  const failure = task?.status === "failed" || task?.status === "cancelled" ? answer?.failure : undefined;
  const failing = failure?.step?.record;
  const view = useTimeline(timeline.answer, {
    failing,
    at,
    onSelect: (next) =>
      go(formatRoute({ view: "task", taskId, ...(next !== undefined && { at: next }) }), { replace: true }),
  });

  const showOlder = async () => {
    if (beforeSequence === undefined) return;
    const page = await api.ask("task", { taskId, beforeSequence });
    setOlder((pages) => [...pages, page]);
  };
  const chosen = pointOf(view.row) ?? checkpoints[0];
  const open = (checkpoint: Pick<CheckpointRow, "id"> | undefined) => {
    if (checkpoint) go(formatRoute({ view: "checkpoint", taskId, id: checkpoint.id }));
  };
  const isFirst = ({ sequence }: Point) => sequence === timeline.answer?.saves[0]?.[0];
  const compare = () => {
    if (chosen === undefined) return;
    const isAlone = comparison.marked.every(({ id }) => id === chosen.id);
    if (isAlone && isFirst(chosen)) say("This is the task's first checkpoint: there is none before it.");
    else go(comparison.address(chosen));
  };
  const openSelected = () => {
    const fold = view.items.find(({ key, kind }) => key === view.selected && (kind === "fold" || kind === "more"));
    if (fold) view.press(fold);
    else open(chosen);
  };
  useKeys("Task", [
    { keys: ["j", "ArrowDown"], what: "next step or checkpoint", run: () => view.move(1) },
    { keys: ["k", "ArrowUp"], what: "previous step or checkpoint", run: () => view.move(-1) },
    { keys: ["Home"], what: "the first line", run: () => view.moveTo(0) },
    { keys: ["End"], what: "the last line", run: () => view.moveTo(view.items.length) },
    {
      keys: ["e"],
      what: "the step that failed",
      run: () => (failing === undefined ? say("No step has failed.") : view.select(`@${failing}`)),
    },
    { keys: ["Enter"], what: "open the checkpoint, or the folded turns", run: openSelected },
    { keys: ["d"], what: "what changed since the previous checkpoint, or since the marked one", run: compare },
    {
      keys: ["m"],
      what: "mark the checkpoint, to compare another one with it",
      run: () => chosen && comparison.toggle(chosen),
    },
    {
      keys: ["p"],
      what: "what a retention policy would keep",
      run: () => go(formatRoute({ view: "retention", taskId })),
    },
  ]);

  useEffect(() => {
    if (task) document.title = `${taskName(task.name)} · Waymark`;
  }, [task?.name]);

  if (query.error && answer === undefined) return <Problem title="The task can't be shown" error={query.error} />;
  if (task === undefined || answer === undefined) return <p class="empty">Reading …</p>;

  const changed = () => {
    query.reload();
    timeline.reload();
    events.reload();
    setOlder([]);
  };
  const retry = (from?: string) =>
    ask((close) => <RetryQuestion task={task} from={from} onClose={close} onDone={changed} />);
  const fork = (point: Point | undefined) =>
    point && ask((close) => <ForkQuestion task={task} checkpoint={point} onClose={close} go={go} />);
  const rewind = (point: Point | undefined) =>
    point && ask((close) => <RewindQuestion task={task} checkpoint={point} onClose={close} go={go} />);
  const commandOf = (action: string) => answer.commands.find((command) => command.action === action);
  const actions = {
    retry: () => retry(),
    cancel: () => ask((close) => <CancelQuestion task={task} onClose={close} onDone={changed} />),
    fork: () => fork(commandOf("fork")?.checkpoint),
    rewind: () => rewind(commandOf("rewind")?.checkpoint),
    complete: () => ask((close) => <CompleteQuestion task={task} onClose={close} onDone={changed} />),
    delete: () => ask((close) => <DeleteQuestion task={task} onClose={close} onDone={() => go("#/tasks")} />),
    export: () => void download(api, taskId).catch((error: unknown) => say(errorInfo(error).message)),
    prune: () => go(formatRoute({ view: "retention", taskId })),
  };
  const answerWait = (wait: WaitInfo) =>
    ask((close) => (
      <AnswerQuestion taskId={taskId} wait={wait} input={events.answer?.input} onClose={close} onSent={changed} />
    ));
  const waits = events.answer?.waits ?? [];
  const toAnswer = waits.filter(({ command }) => command !== undefined);
  const damage = mergeDamage([answer, timeline.answer, events.answer]);
  const usage = sumUsage(timeline.answer?.steps.map((step) => step.usage) ?? []);
  const lastStep = timeline.answer?.steps.at(-1);
  const here = view.row?.kind === "step" ? view.row.step : undefined;
  const isInLastTurn = here?.turn === lastStep?.turn && here?.generation === lastStep?.generation;
  const saves = timeline.answer?.saves ?? [];
  const bytes = timeline.answer && saves.reduce((sum, [, , size]) => sum + size, 0);

  return (
    <>
      <TaskHeader task={task} family={family.answer} damage={damage} nowMs={nowMs}>
        {session.canWrite &&
          toAnswer.map((wait) => (
            <button type="button" class="primary" key={wait.key ?? wait.name} onClick={() => answerWait(wait)}>
              {toAnswer.length === 1 ? "Answer …" : `Answer ${wait.name} …`}
            </button>
          ))}
        <ActionButtons commands={answer.commands} actions={actions} />
        {session.canWrite && here && isInLastTurn && commandOf("retry") && (
          <button type="button" onClick={() => retry(here.title)}>
            Retry from here …
          </button>
        )}
        <CommandMenu commands={answer.commands} actions={actions} />
        <a class="button" href={formatRoute({ view: "retention", taskId })}>
          Retention
        </a>
      </TaskHeader>
      {isGone && (
        <p class="problem failed" role="status">
          The task was removed meanwhile. This page shows its last state.
        </p>
      )}
      {failure && <Failure answer={answer} failure={failure} onSelect={(record) => view.select(`@${record}`)} />}
      {events.error && <Problem title="Its events can't be read" error={events.error} />}
      <Waits waits={waits} nowMs={nowMs} />
      <ThreadQuestions asks={task.asks} commands={answer.commands} />
      <Warnings warnings={answer.warnings} />
      <Damage damage={damage} />
      <div class={`panes${view.row ? " has-selection" : ""}`}>
        <section class="card" aria-label="Timeline" aria-busy={timeline.isLoading}>
          <header>
            <h2>Timeline</h2>
            <span class="end small soft">
              {usage && `${usageText(usage)} · `}
              <kbd>j</kbd> <kbd>k</kbd> move
              {failing !== undefined && (
                <>
                  , <kbd>e</kbd> to the failure
                </>
              )}
            </span>
          </header>
          {timeline.error && <Problem title="The timeline can't be read" error={timeline.error} />}
          {timeline.answer?.keyMissing && (
            <Problem title="Some steps can't be opened" error={timeline.answer.keyMissing} />
          )}
          {timeline.answer && <Timeline items={view.items} selected={view.selected} onSelect={view.press} />}
        </section>
        <section class="card selection" aria-label="Selection">
          {view.row ? (
            <Selection
              taskId={taskId}
              row={view.row}
              family={family.answer}
              change={timeline.answer}
              buttons={(point) => (
                <PointButtons
                  taskId={taskId}
                  point={point}
                  comparison={comparison}
                  isFirst={isFirst(point)}
                  isThread={task.isThread}
                  onFork={fork}
                  onRewind={rewind}
                />
              )}
            />
          ) : (
            <Pane title={task.isThread ? "Newest checkpoint" : "Stored"}>
              {task.isThread && <ThreadChat taskId={taskId} newest={task.newest} />}
              <TaskFacts task={task} bytes={bytes} />
            </Pane>
          )}
        </section>
      </div>
      {family.error && <Problem title="Its related tasks can't be read" error={family.error} />}
      {family.answer && <Family family={family.answer} taskId={taskId} />}
      {events.answer && <Events answer={events.answer} nowMs={nowMs} />}
      <section class="card">
        <header>
          <h2>Checkpoints</h2>
          <span class="end small soft">
            <CompareMarked comparison={comparison} />
          </span>
        </header>
        <CheckpointList
          taskId={taskId}
          checkpoints={checkpoints}
          damage={damage}
          selected={view.row && chosen?.id}
          comparison={comparison}
          nowMs={nowMs}
          onOpen={open}
        />
        {beforeSequence !== undefined && (
          <p class="empty">
            <button type="button" onClick={() => void showOlder()}>
              Show older ones
            </button>
          </p>
        )}
      </section>
      {saves.length >= LEAST_SAVES && (
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
      )}
      {question}
    </>
  );
}

/** Returns the checkpoint of a row: for a step, the first checkpoint after it. */
function pointOf(row: TimelineRow | undefined): Point | undefined {
  if (row?.kind === "step") return { id: row.step.checkpointId, sequence: row.step.sequence };
  if (row?.checkpointId === undefined || row.sequence === undefined) return undefined;
  return { id: row.checkpointId, sequence: row.sequence };
}

/** Returns the list with its newest part replaced by the live one. */
function withNewest(
  checkpoints: readonly CheckpointRow[],
  live: Extract<TaskMessage, { kind: "change" }> | undefined,
): readonly CheckpointRow[] {
  const oldest = live?.checkpoints.at(-1);
  if (live === undefined || oldest === undefined) return checkpoints;
  return [...live.checkpoints, ...checkpoints.filter(({ sequence }) => sequence < oldest.sequence)];
}
