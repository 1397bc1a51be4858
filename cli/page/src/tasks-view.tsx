import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { TaskStatus } from "../../src/ui/api-parts.js";
import type { CountsAnswer, QueueInfo, TaskRow } from "../../src/ui/api-tasks.js";
import { agoText, bytesText, counted, countText, forText } from "../../src/words.js";
import { useKeys } from "./keys.js";
import { usePage } from "./page.js";
import { Damage, Problem, Warnings } from "./problem.js";
import { useNow, useQuery, useWatch } from "./queries.js";
import { formatRoute, STATUSES, type TasksFilter } from "./route.js";
import { leaseText, placeText, StatusMark } from "./status.js";
import { pictured, StoredText } from "./stored-text.js";
import { useTaskList } from "./task-list.js";
import { timeText } from "./times.js";

interface TasksViewProps {
  readonly filter: TasksFilter;
  readonly go: (fragment: string, options?: { readonly replace?: boolean }) => void;
}

/** Rows that are drawn above and below what can be seen. */
const SPARE = 12;

/** Where a list was left, for the way back to it. */
const left = new Map<string, { readonly selected: number; readonly scrollTop: number }>();

export function TasksView({ filter, go }: TasksViewProps) {
  const filterKey = formatRoute({ view: "tasks", filter });
  const [isRead, setIsRead] = useState(false);
  // Counting reads all tasks. The first ones are on the screen before.
  const counts = useQuery("counts", {}, isRead);
  const isFiltered = filter.prefix !== "" || filter.status.length > 0;
  const expected = counts.answer && countTasks(filter, counts.answer);
  const { setAsking } = usePage();
  useEffect(() => {
    if (counts.answer) setAsking(counts.answer.asking);
  }, [counts.answer]);
  const list = useTaskList(filter, expected ?? 0);
  const prefixField = useRef<HTMLInputElement>(null);
  const scroller = useRef<HTMLElement>(null);
  const [selected, setSelected] = useState(() => left.get(filterKey)?.selected ?? 0);
  const [first, setFirst] = useState(0);
  const [queue, setQueue] = useState<QueueInfo>();
  const [height, setHeight] = useState(600);
  const rowHeight = useRowHeight();
  const nowMs = useNow(1000);

  const setFilter = (change: Partial<TasksFilter>) => {
    setSelected(0);
    if (scroller.current) scroller.current.scrollTop = 0;
    go(formatRoute({ view: "tasks", filter: { ...filter, ...change } }), { replace: true });
  };

  const toggleStatus = (status: TaskStatus) => setFilter({ status: toggled(filter.status, status) });

  const from = Math.max(0, first - SPARE);
  const to = Math.min(list.length, first + Math.ceil(height / rowHeight) + SPARE);
  const rows: (TaskRow | undefined)[] = [];
  for (let index = from; index < to; index += 1) rows.push(list.at(index));

  useEffect(() => {
    if (list.isRead) setIsRead(true);
  }, [list.isRead]);

  const { need } = list;
  useEffect(() => need(from, to), [need, from, to, list.length]);

  // The tasks on the screen are watched. While the list scrolls, no new ones are asked for.
  const visible = useSettled(
    rows.slice(first - from, first - from + Math.ceil(height / rowHeight)).flatMap((task) => task?.taskId ?? []),
  );
  useWatch(
    "watch-tasks",
    {
      visible,
      ...(filter.prefix === "" ? {} : { prefix: filter.prefix }),
      ...(filter.status.length === 0 ? {} : { status: filter.status }),
    },
    (message) => {
      if (message.kind !== "change") return;
      setQueue(message.queue);
      const isMoved = list.update(message.tasks, message.gone);
      // A reader has scrolled down: the list stays as it is until asked.
      if (isMoved && (scroller.current?.scrollTop ?? 0) < rowHeight && selected === 0) list.reload();
    },
  );

  useLayoutEffect(() => {
    const box = scroller.current;
    if (box === null) return;
    const observer = new ResizeObserver(() => setHeight(box.clientHeight));
    observer.observe(box);
    return () => observer.disconnect();
  }, []);

  const isThere = list.length > 0;
  useLayoutEffect(() => {
    if (isThere && scroller.current) scroller.current.scrollTop = left.get(filterKey)?.scrollTop ?? 0;
    // Once, when the rows have come.
  }, [isThere]);
  const remember = useRef({ selected, filterKey });
  remember.current = { selected, filterKey };
  const scrolledTo = useRef(0);
  useEffect(
    () => () => {
      const { selected: index, filterKey: key } = remember.current;
      left.set(key, { selected: index, scrollTop: scrolledTo.current });
    },
    [],
  );

  const select = useCallback(
    (index: number) => {
      const box = scroller.current;
      const next = Math.max(0, Math.min(list.length - 1, index));
      setSelected(next);
      if (box === null) return;
      const head = box.querySelector("thead")?.clientHeight ?? 0;
      const top = next * rowHeight;
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + rowHeight + head > box.scrollTop + box.clientHeight) {
        box.scrollTop = top + rowHeight + head - box.clientHeight;
      }
    },
    [list.length, rowHeight],
  );

  const chosen = list.at(selected);
  const open = (task: TaskRow | undefined) => {
    if (task) go(formatRoute({ view: "task", taskId: task.taskId }));
  };
  const showNewest = () => {
    select(0);
    list.reload();
    counts.reload();
  };
  const page = Math.max(1, Math.floor(height / rowHeight) - 2);
  useKeys("Tasks", [
    { keys: ["j", "ArrowDown"], what: "next task", run: () => select(selected + 1) },
    { keys: ["k", "ArrowUp"], what: "task before", run: () => select(selected - 1) },
    { keys: ["PageDown"], what: "a screen down", run: () => select(selected + page) },
    { keys: ["PageUp"], what: "a screen up", run: () => select(selected - page) },
    { keys: ["Home"], what: "first task", run: () => select(0) },
    { keys: ["End"], what: "last task", run: () => select(list.length - 1) },
    { keys: ["Enter"], what: "open the task", run: () => open(chosen) },
    { keys: ["/"], what: "filter by the beginning of the name", run: () => prefixField.current?.focus() },
    ...STATUSES.map((status) => ({
      keys: [STATUS_KEYS[status]],
      what: `only those ${STATUS_WORDS[status]}, or all again`,
      run: () => toggleStatus(status),
    })),
    { keys: ["u"], what: "read the list anew", run: showNewest },
  ]);

  const known = list.total ?? expected;
  return (
    <>
      <div class="heading">
        <h1>Tasks</h1>
        <p class="soft" role="status">
          {known === undefined ? (isFiltered ? "" : "counting …") : counted(known, "task")}
          {known !== undefined && isFiltered && counts.answer ? ` of ${countText(counts.answer.tasks)}` : ""}
          {!isFiltered && counts.answer ? `, ${counted(counts.answer.checkpoints, "checkpoint")}` : ""}
          {counts.answer && counts.answer.held > 0 ? `, ${countText(counts.answer.held)} being run` : ""}
        </p>
        {/* Not in the status: it would be read aloud as the time passes. */}
        {queue && queue.tasks > 0 && <p class="soft">{queueText(queue, nowMs)}</p>}
        {list.changed > 0 && (
          <button type="button" onClick={showNewest}>
            {counted(list.changed, "task")} changed: show the newest
          </button>
        )}
      </div>
      <search class="filters">
        <input
          ref={prefixField}
          type="search"
          placeholder="Name begins with …"
          aria-label="Name begins with"
          autocomplete="off"
          spellcheck={false}
          value={filter.prefix}
          onInput={(event) => setFilter({ prefix: event.currentTarget.value })}
          onKeyDown={(event) => {
            if (event.key === "Enter" || event.key === "ArrowDown") {
              event.preventDefault();
              scroller.current?.focus();
            }
            if (event.key === "Escape") {
              event.preventDefault();
              setFilter({ prefix: "" });
              scroller.current?.focus();
            }
          }}
        />
        <fieldset class="choice">
          <legend class="only-read">Status</legend>
          {STATUSES.filter((status) => filter.status.includes(status) || counts.answer?.byStatus[status] !== 0).map(
            (status) => (
              <button
                type="button"
                key={status}
                aria-pressed={filter.status.includes(status)}
                title={`Key: ${STATUS_KEYS[status]}`}
                onClick={() => toggleStatus(status)}
              >
                <StatusMark status={status} />
                {counts.answer && <span class="soft">{countText(counts.answer.byStatus[status])}</span>}
              </button>
            ),
          )}
        </fieldset>
        <label class="small soft">
          Order{" "}
          <select
            value={filter.order}
            onChange={(event) => setFilter({ order: event.currentTarget.value === "taskId" ? "taskId" : "recent" })}
          >
            <option value="recent">last saved first</option>
            <option value="taskId">by name</option>
          </select>
        </label>
      </search>
      {list.error && <Problem title="The tasks can't be read" error={list.error} />}
      <Warnings warnings={list.warnings} />
      <Damage damage={counts.answer?.damage ?? list.damage} total={counts.answer?.damaged ?? list.damage.length} />
      <div class="card task-list" aria-busy={list.isLoading}>
        <section
          ref={scroller}
          class="task-rows"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls is reached by the keyboard.
          tabIndex={0}
          aria-label="Tasks; j and k choose one, Enter opens it"
          onScroll={({ currentTarget: { scrollTop } }) => {
            scrolledTo.current = scrollTop;
            setFirst(Math.floor(scrollTop / rowHeight));
          }}
        >
          <table aria-rowcount={list.length + 1}>
            <colgroup>
              <col class="col-status" />
              <col />
              <col class="col-stage" />
              <col class="col-runner" />
              <col class="col-count" />
              <col class="col-when" />
            </colgroup>
            <thead>
              <tr aria-rowindex={1}>
                <th scope="col">Status</th>
                <th scope="col">Task</th>
                <th scope="col" class="stage">
                  Last step
                </th>
                <th scope="col" class="runner">
                  Who runs it, or why it stands
                </th>
                <th scope="col" class="number count">
                  Checkpoints
                </th>
                <th scope="col" class="number when">
                  Saved
                </th>
              </tr>
            </thead>
            <tbody>
              <Gap rows={from} rowHeight={rowHeight} />
              {rows.map((task, offset) => (
                <Row
                  key={from + offset}
                  task={task}
                  index={from + offset}
                  isSelected={from + offset === selected}
                  nowMs={nowMs}
                  onSelect={setSelected}
                  onOpen={open}
                />
              ))}
              <Gap rows={list.length - to} rowHeight={rowHeight} />
            </tbody>
          </table>
          {list.length === 0 && !list.isLoading && list.error === undefined && (
            <p class="empty">
              {isFiltered
                ? "No task matches. Press / to change the filter."
                : "Nothing is saved here yet. The first save shows up by itself."}
            </p>
          )}
        </section>
        {chosen && <Peek task={chosen} nowMs={nowMs} />}
      </div>
    </>
  );
}

interface RowProps {
  readonly task: TaskRow | undefined;
  readonly index: number;
  readonly isSelected: boolean;
  readonly nowMs: number;
  readonly onSelect: (index: number) => void;
  readonly onOpen: (task: TaskRow | undefined) => void;
}

function Row({ task, index, isSelected, nowMs, onSelect, onOpen }: RowProps) {
  if (task === undefined) {
    return (
      <tr class="row" aria-rowindex={index + 2}>
        <td class="soft">…</td>
      </tr>
    );
  }
  const { taskId, name, newest, count, damage, lastAt = newest?.createdAt } = task;
  const place = describePlace(task, nowMs);
  const reason = describeReason(task, nowMs);
  return (
    <tr
      class="row link"
      aria-rowindex={index + 2}
      aria-current={isSelected ? "true" : undefined}
      onClick={(event) => {
        onSelect(index);
        if (!(event.target instanceof HTMLAnchorElement) && getSelection()?.isCollapsed !== false) onOpen(task);
      }}
    >
      <td>{damage.length > 0 ? <StatusMark status="damaged" /> : <StatusMark status={task.status} />}</td>
      <td>
        <a class="task-name one-line" href={formatRoute({ view: "task", taskId })} tabIndex={-1} title={pictured(name)}>
          <StoredText text={name} />
        </a>
        <span class="task-more one-line">
          {lastAt !== undefined && `${agoText(lastAt, nowMs)} · `}
          <StoredText text={reason === "" ? place : reason} />
        </span>
      </td>
      <td class="stage">
        <span class="one-line" title={pictured(place)}>
          <StoredText text={place} />
        </span>
      </td>
      <td class="runner">
        <span class={`one-line ${isBad(task) ? "bad" : "soft"}`} title={pictured(reason)}>
          <StoredText text={reason} />
        </span>
      </td>
      <td class="number count">{countText(count)}</td>
      <td class="number when soft">{lastAt === undefined ? "not yet" : agoText(lastAt, nowMs)}</td>
    </tr>
  );
}

function Gap({ rows, rowHeight }: { readonly rows: number; readonly rowHeight: number }) {
  if (rows <= 0) return null;
  return (
    <tr class="gap">
      <td style={{ height: `${rows * rowHeight}px` }} />
    </tr>
  );
}

/** The chosen task in full: its row may be too short for it. */
function Peek({ task, nowMs }: { readonly task: TaskRow; readonly nowMs: number }) {
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

/** `1,383 due, the oldest for 3 minutes` */
function queueText({ tasks, oldestDueAt }: QueueInfo, nowMs: number): string {
  const since = oldestDueAt === undefined ? "" : `, the oldest ${forText(oldestDueAt, nowMs)}`;
  return `${countText(tasks)} due${since}`;
}

/** The step that the task's run is in, otherwise what the newest checkpoint says. */
function describePlace({ newest, step }: TaskRow, nowMs: number): string {
  return step === undefined ? (newest?.label ?? newest?.stage ?? "") : placeText(step, nowMs);
}

function describeReason({ runner, why, error }: TaskRow, nowMs: number): string {
  if (runner?.state === "held") return `${runner.holder} · ${leaseText(runner, nowMs)}`;
  return why ?? error ?? "";
}

/** How many tasks a filter lets through by the count of all; `undefined` if that doesn't tell. */
function countTasks({ prefix, status }: TasksFilter, { tasks, byStatus }: CountsAnswer): number | undefined {
  if (prefix !== "") return undefined;
  return status.length === 0 ? tasks : status.reduce((sum, one) => sum + byStatus[one], 0);
}

/** Whether a person should look at the task: it failed, or its runner is gone. */
function isBad({ status, runner }: TaskRow): boolean {
  return status === "failed" || runner?.state === "died" || runner?.state === "expired";
}

function toggled(statuses: readonly TaskStatus[], status: TaskStatus): readonly TaskStatus[] {
  return statuses.includes(status) ? statuses.filter((one) => one !== status) : [...statuses, status];
}

const STATUS_KEYS: Readonly<Record<TaskStatus, string>> = {
  ...{ running: "r", queued: "q", scheduled: "l", waiting: "w", interrupted: "i" },
  ...{ paused: "p", failed: "f", cancelled: "x", completed: "c" },
};

const STATUS_WORDS: Readonly<Record<TaskStatus, string>> = {
  running: "that run",
  queued: "that are queued",
  scheduled: "that are scheduled for later",
  waiting: "that wait",
  interrupted: "that were interrupted",
  paused: "that are paused",
  failed: "that failed",
  cancelled: "that were cancelled",
  completed: "that are completed",
};

const NARROW = "(max-width: 45rem)";

/** In px, as app.css has it: 2.75rem, and 4rem where a row has two lines. */
function useRowHeight(): number {
  const [isNarrow, setIsNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const query = matchMedia(NARROW);
    const onChange = () => setIsNarrow(query.matches);
    query.addEventListener("change", onChange);
    return () => query.removeEventListener("change", onChange);
  }, []);
  const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
  return (isNarrow ? 4 : 2.75) * rem;
}

/** The ids once they have stayed the same for a moment. */
function useSettled(ids: readonly string[]): readonly string[] {
  const [settled, setSettled] = useState(ids);
  const key = JSON.stringify(ids);
  // The key stands for the ids.
  useEffect(() => {
    const timer = setTimeout(() => setSettled(ids), 300);
    return () => clearTimeout(timer);
  }, [key]);
  return settled;
}
