import { useEffect, useState } from "preact/hooks";
import type { InboxItem } from "../../src/ui/api-inbox.js";
import type { WaitInfo } from "../../src/ui/api-runs.js";
import { agoText, counted, forText } from "../../src/words.js";
import { useAnswer } from "./answer-fields.js";
import { CopyButton } from "./commands.js";
import { useKeys } from "./keys.js";
import { usePage } from "./page.js";
import { Problem, Warnings } from "./problem.js";
import { useNow, useQuery, useRefresh, useWatch } from "./queries.js";
import { useConfirm } from "./question.js";
import { formatRoute } from "./route.js";
import { StoredText } from "./stored-text.js";
import { typedText } from "./typed.js";
import { Value } from "./value.js";

/** Shows the questions of all tasks that wait for a person, each with a form for its answer. */
export function InboxView() {
  const { setAsking } = usePage();
  const inbox = useQuery("inbox", {});
  const { answer, error, reload } = inbox;
  const refresh = useRefresh(inbox);
  /** The key of the chosen item; `undefined` for the first item. */
  const [chosen, setChosen] = useState<string>();
  // An answered item keeps its place, so that a second click can't answer the next one.
  const [sent, setSent] = useState<ReadonlyMap<string, { readonly item: InboxItem; readonly index: number }>>(
    new Map(),
  );
  const nowMs = useNow(1000);
  const items = withSent(answer?.items ?? [], sent);
  const selected = items.find((item) => keyOf(item) === chosen) ?? items[0];

  useWatch("watch-tasks", { visible: (answer?.items ?? []).map(({ task }) => task.taskId) }, (message) => {
    if (message.kind === "change") refresh();
  });
  useEffect(() => {
    document.title = "Inbox · Waymark";
  }, []);
  useEffect(() => {
    if (answer) setAsking(answer.total);
  }, [answer]);

  const select = (step: number) => {
    const index = (selected === undefined ? 0 : items.indexOf(selected)) + step;
    const item = items[Math.max(0, Math.min(items.length - 1, index))];
    if (item === undefined) return;
    setChosen(keyOf(item));
    document.getElementById(headId(item))?.focus();
  };
  useKeys("Inbox", [
    { keys: ["j", "ArrowDown"], what: "next question", run: () => select(1) },
    { keys: ["k", "ArrowUp"], what: "previous question", run: () => select(-1) },
  ]);

  if (error) return <Problem title="What waits can't be read" error={error} />;
  if (answer === undefined) return <p class="empty">Reading …</p>;
  return (
    <>
      <div class="heading">
        <h1>Inbox</h1>
        <p class="soft" role="status">
          {answer.total === 0 ? "" : `${counted(answer.total, "task")} ${answer.total === 1 ? "waits" : "wait"}`}
          {answer.total > answer.items.length && `, the newest ${answer.items.length} are shown`}
        </p>
      </div>
      <Warnings warnings={answer.warnings} />
      {items.length === 0 && <p class="empty">Nothing waits for an answer. The next question shows up by itself.</p>}
      <ul class="inbox">
        {items.map((item) => {
          const key = keyOf(item);
          return (
            <li class="card" key={key}>
              <Head
                item={item}
                nowMs={nowMs}
                isSent={sent.has(key)}
                isOpen={item === selected}
                onOpen={() => setChosen(key)}
              />
              {item === selected && !sent.has(key) && (
                <Item
                  item={item}
                  onSent={() => {
                    // The item keeps its place, so that nothing moves under the pointer.
                    setChosen(key);
                    setSent((before) => new Map(before).set(key, { item, index: items.indexOf(item) }));
                    reload();
                  }}
                />
              )}
            </li>
          );
        })}
      </ul>
    </>
  );
}

interface HeadProps {
  readonly item: InboxItem;
  readonly nowMs: number;
  readonly isSent: boolean;
  readonly isOpen: boolean;
  readonly onOpen: () => void;
}

function Head({ item, nowMs, isSent, isOpen, onOpen }: HeadProps) {
  const { task, waits } = item;
  const [wait] = waits;
  const question = wait?.question ?? task.asks[0] ?? (wait && `It waits for the event ${wait.name}`);
  const since = wait?.since ?? task.newest?.createdAt;
  return (
    <button type="button" class="quiet" id={headId(item)} aria-expanded={isOpen} onClick={onOpen}>
      <strong>
        <StoredText text={question ?? task.why ?? ""} />
      </strong>
      <span class="small soft">
        <StoredText text={task.name} />
        {since !== undefined && ` · ${isSent ? agoText(since, nowMs) : forText(since, nowMs)}`}
        {isSent && " · answered"}
      </span>
    </button>
  );
}

function Item({ item, onSent }: { readonly item: InboxItem; readonly onSent: () => void }) {
  const { task, waits, input, before } = item;
  return (
    <div class="body">
      <div class="answers">
        {waits.map((wait) => (
          <Wait
            key={wait.key ?? wait.name}
            taskId={task.taskId}
            wait={wait}
            hasName={waits.length > 1}
            onSent={onSent}
          />
        ))}
        {task.isThread && <p class="soft">Its program answers: invoke the graph with Command({"{ resume }"}).</p>}
        <a href={formatRoute({ view: "task", taskId: task.taskId })}>Open the task</a>
      </div>
      <div class="about">
        {before?.result !== undefined && (
          <section>
            <h2>
              Result of <StoredText text={before.title} />
            </h2>
            <Value text={typedText(before.result)} label={`Result of ${before.title}`} />
          </section>
        )}
        {input !== undefined && (
          <section>
            <h2>Input of the run</h2>
            <Value text={typedText(input)} label="Input of the run" />
          </section>
        )}
      </div>
    </div>
  );
}

interface WaitProps {
  readonly taskId: string;
  readonly wait: WaitInfo;
  /** True if the task has several waits, so that each one shows its question or its name. */
  readonly hasName: boolean;
  readonly onSent: () => void;
}

function Wait({ taskId, wait, hasName, onSent }: WaitProps) {
  const { session } = usePage();
  const { command, name } = wait;
  if (session.canWrite) return <WaitForm taskId={taskId} wait={wait} hasName={hasName} onSent={onSent} />;
  if (command === undefined) return null;
  return (
    <div class="command">
      <div class="line">
        <code>{command}</code>
        <CopyButton text={command} label={`Copy the command that answers ${name}`} />
      </div>
    </div>
  );
}

function WaitForm({ hasName, ...asked }: WaitProps) {
  const { fields, isReady, send, choices } = useAnswer(asked);
  const { isBusy, error, run } = useConfirm(() => undefined);
  const { name, question } = asked.wait;
  return (
    <form
      aria-label={`Answer ${name}`}
      onSubmit={(event) => {
        event.preventDefault();
        if (choices === undefined && isReady && !isBusy) run(send);
      }}
    >
      {hasName && <StoredText text={question ?? name} />}
      <div class="line-of-buttons">
        {choices?.map(({ text, onConfirm }, index) => (
          <button
            type="button"
            class={index === 0 ? "primary" : ""}
            key={text}
            disabled={!isReady || isBusy}
            onClick={() => run(onConfirm)}
          >
            <StoredText text={text} />
          </button>
        ))}
      </div>
      {fields}
      {choices === undefined && (
        <button type="submit" class="primary" disabled={!isReady || isBusy}>
          Send
        </button>
      )}
      {error && (
        <div role="alert">
          <Problem title="That failed" error={error} />
        </div>
      )}
    </form>
  );
}

/** Returns the items, including those that were answered on this page, at their earlier places. */
function withSent(
  items: readonly InboxItem[],
  sent: ReadonlyMap<string, { readonly item: InboxItem; readonly index: number }>,
): readonly InboxItem[] {
  const shown = items.filter((item) => !sent.has(keyOf(item)));
  for (const { item, index } of [...sent.values()].sort((a, b) => a.index - b.index)) shown.splice(index, 0, item);
  return shown;
}

/** Returns an item's key. It includes the waits, because a task's next question is another item. */
function keyOf({ task, waits }: InboxItem): string {
  return JSON.stringify([task.taskId, ...waits.map(({ key, name }) => key ?? name)]);
}

function headId(item: InboxItem): string {
  return `asks ${keyOf(item)}`;
}
