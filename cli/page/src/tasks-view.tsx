import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { CountsAnswer, QueueInfo, TaskRow } from "../../src/ui/api-tasks.js";
import { counted, countText, forText } from "../../src/words.js";
import { ChosenTasks } from "./chosen-tasks.js";
import { FailureGroups } from "./failure-groups.js";
import { useKeys } from "./keys.js";
import { usePage } from "./page.js";
import { Damage, Problem, Warnings } from "./problem.js";
import { useNow, useQuery, useRefresh, useWatch } from "./queries.js";
import { formatRoute, requestedFilter, STATUSES, type TasksFilter } from "./route.js";
import { STATUS_KEYS, STATUS_WORDS, TaskFilters, toggled } from "./task-filters.js";
import { useTaskList } from "./task-list.js";
import { Peek } from "./task-peek.js";
import { Gap, Row } from "./task-rows.js";

interface TasksViewProps {
  readonly filter: TasksFilter;
  readonly go: (fragment: string, options?: { readonly replace?: boolean }) => void;
}

/** How many rows are drawn above and below the visible ones. */
const SPARE = 12;

/** The selection and the scroll position of each list, restored on Back. */
const left = new Map<string, { readonly selected: number; readonly scrollTop: number }>();

export function TasksView({ filter, go }: TasksViewProps) {
  const filterKey = formatRoute({ view: "tasks", filter });
  const [isRead, setIsRead] = useState(false);
  // Counting reads all tasks, so it starts once the first tasks are shown.
  const counts = useQuery("counts", {}, isRead);
  const isFiltered = Object.keys(requestedFilter(filter)).length > 0;
  const refreshCounts = useRefresh(counts);
  const showsFailures = filter.error === undefined && (filter.status.length === 0 || filter.status.includes("failed"));
  // The start page shows recent failures.
  const failureTime = filter.within === "all" && filter.status.length === 0 ? "24h" : filter.within;
  const { status: _status, ...failureFilter } = requestedFilter({ ...filter, within: failureTime });
  const failures = useQuery("failures", failureFilter, isRead && showsFailures);
  const refreshFailures = useRefresh(failures);
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const expected = counts.answer && countTasks(filter, counts.answer);
  const { setAsking, session } = usePage();
  useEffect(() => {
    if (counts.answer === undefined) return;
    const { asking, byStatus } = counts.answer;
    setAsking(asking);
    document.title = byStatus.failed === 0 ? "Tasks · Waymark" : `✗ ${countText(byStatus.failed)} · Waymark`;
  }, [counts.answer]);
  const list = useTaskList(filter, expected ?? 0);
  const searchField = useRef<HTMLInputElement>(null);
  const scroller = useRef<HTMLElement>(null);
  const [selected, setSelected] = useState(() => left.get(filterKey)?.selected ?? 0);
  const [first, setFirst] = useState(0);
  const [queue, setQueue] = useState<QueueInfo>();
  const [height, setHeight] = useState(600);
  const rowHeight = useRowHeight();
  const nowMs = useNow(1000);

  const setFilter = (change: Partial<TasksFilter>) => {
    setSelected(0);
    setPicked(new Set());
    if (scroller.current) scroller.current.scrollTop = 0;
    go(formatRoute({ view: "tasks", filter: { ...filter, ...change } }), { replace: true });
  };

  const pick = (taskId: string) =>
    setPicked((before) => {
      const next = new Set(before);
      if (!next.delete(taskId)) next.add(taskId);
      return next;
    });

  const from = Math.max(0, first - SPARE);
  const to = Math.min(list.length, first + Math.ceil(height / rowHeight) + SPARE);
  const rows: (TaskRow | undefined)[] = [];
  for (let index = from; index < to; index += 1) rows.push(list.at(index));

  useEffect(() => {
    if (list.isRead) setIsRead(true);
  }, [list.isRead]);

  const { need } = list;
  useEffect(() => need(from, to), [need, from, to, list.length]);

  // The tasks on the screen are watched. While the list scrolls, the watched tasks stay the same.
  const visible = useSettled(
    rows.slice(first - from, first - from + Math.ceil(height / rowHeight)).flatMap((task) => task?.taskId ?? []),
  );
  useWatch("watch-tasks", { visible, ...requestedFilter(filter) }, (message) => {
    if (message.kind !== "change") return;
    setQueue(message.queue);
    refreshCounts();
    if (showsFailures) refreshFailures();
    const isMoved = list.update(message.tasks, message.gone);
    // If the user has scrolled down, the list stays unchanged until they ask for the newest tasks.
    if (isMoved && (scroller.current?.scrollTop ?? 0) < rowHeight && selected === 0) list.reload();
  });

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
    // Runs once, when the rows are loaded.
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
    if (showsFailures) failures.reload();
  };
  const page = Math.max(1, Math.floor(height / rowHeight) - 2);
  useKeys("Tasks", [
    { keys: ["j", "ArrowDown"], what: "next task", run: () => select(selected + 1) },
    { keys: ["k", "ArrowUp"], what: "previous task", run: () => select(selected - 1) },
    { keys: ["PageDown"], what: "a screen down", run: () => select(selected + page) },
    { keys: ["PageUp"], what: "a screen up", run: () => select(selected - page) },
    { keys: ["Home"], what: "first task", run: () => select(0) },
    { keys: ["End"], what: "last task", run: () => select(list.length - 1) },
    { keys: ["Enter"], what: "open the task", run: () => open(chosen) },
    { keys: ["/"], what: "search", run: () => searchField.current?.focus() },
    ...STATUSES.map((status) => ({
      keys: [STATUS_KEYS[status]],
      what: `only those ${STATUS_WORDS[status]}, or all again`,
      run: () => setFilter({ status: toggled(filter.status, status) }),
    })),
    ...(session.canWrite
      ? [{ keys: [" "], what: "choose the task for an action", run: () => chosen && pick(chosen.taskId) }]
      : []),
    { keys: ["u"], what: "reload the list", run: showNewest },
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
        {/* Outside the status, because screen readers would read it aloud as the time passes. */}
        {queue && queue.tasks > 0 && <p class="soft">{queueText(queue, nowMs)}</p>}
        {list.changed > 0 && (
          <button type="button" onClick={showNewest}>
            {counted(list.changed, "task")} changed: show the newest
          </button>
        )}
      </div>
      <TaskFilters
        filter={filter}
        counts={counts.answer}
        field={searchField}
        onChange={setFilter}
        onLeave={() => scroller.current?.focus()}
      />
      {showsFailures && (
        <FailureGroups
          failures={failures.answer}
          within={failureTime}
          onShow={(error) => setFilter({ status: ["failed"], within: failureTime, error })}
        />
      )}
      {session.canWrite && (picked.size > 0 || isFiltered) && list.length > 0 && (
        <ChosenTasks
          request={picked.size > 0 ? { taskIds: [...picked] } : { filter: requestedFilter(filter) }}
          tasks={picked.size > 0 ? picked.size : known}
          onClear={picked.size > 0 ? () => setPicked(new Set()) : undefined}
          go={go}
          onDone={() => {
            setPicked(new Set());
            showNewest();
          }}
        />
      )}
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
              {session.canWrite && <col class="col-pick" />}
              <col class="col-name" />
              <col class="col-status" />
              <col class="col-stage" />
              <col class="col-runner" />
              <col class="col-count" />
              <col class="col-when" />
            </colgroup>
            <thead>
              <tr aria-rowindex={1}>
                {session.canWrite && (
                  <th scope="col">
                    <span class="only-read">Chosen</span>
                  </th>
                )}
                <th scope="col">Task</th>
                <th scope="col">Status</th>
                <th scope="col" class="stage">
                  Last step
                </th>
                <th scope="col" class="runner">
                  Runner or reason
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
                  isPicked={task && picked.has(task.taskId)}
                  onPick={pick}
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

/** Returns a text such as `1,383 due, the oldest for 3 minutes`. */
function queueText({ tasks, oldestDueAt }: QueueInfo, nowMs: number): string {
  const since = oldestDueAt === undefined ? "" : `, the oldest ${forText(oldestDueAt, nowMs)}`;
  return `${countText(tasks)} due${since}`;
}

/** Returns how many tasks match a filter, from the counts of all tasks; `undefined` if these aren't enough. */
function countTasks(filter: TasksFilter, { tasks, byStatus }: CountsAnswer): number | undefined {
  const { status, ...others } = requestedFilter(filter);
  if (Object.keys(others).length > 0) return undefined;
  if (status === undefined) return tasks;
  return status.reduce((sum, one) => sum + byStatus[one], 0);
}

const NARROW = "(max-width: 45rem)";

/** Returns the height of a row in px, the same as in app.css: 2rem, or 3rem if a row has two lines. */
function useRowHeight(): number {
  const [isNarrow, setIsNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const query = matchMedia(NARROW);
    const onChange = () => setIsNarrow(query.matches);
    query.addEventListener("change", onChange);
    return () => query.removeEventListener("change", onChange);
  }, []);
  const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
  return (isNarrow ? 3 : 2) * rem;
}

/** Returns the ids once they have stayed the same for a moment. */
function useSettled(ids: readonly string[]): readonly string[] {
  const [settled, setSettled] = useState(ids);
  const key = JSON.stringify(ids);
  // The key changes with the ids.
  useEffect(() => {
    const timer = setTimeout(() => setSettled(ids), 300);
    return () => clearTimeout(timer);
  }, [key]);
  return settled;
}
