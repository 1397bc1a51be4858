import { useState } from "preact/hooks";
import type { Json } from "../../src/ui/api-actions.js";
import type { Typed } from "../../src/ui/api-parts.js";
import type { EventInfo, EventsAnswer, WaitInfo } from "../../src/ui/api-runs.js";
import { agoText, forText } from "../../src/words.js";
import { CopyButton } from "./commands.js";
import { usePage } from "./page.js";
import { Damage, Problem } from "./problem.js";
import { Question } from "./question.js";
import { StoredText } from "./stored-text.js";
import { timeText } from "./times.js";
import { typedText } from "./typed.js";
import { Part, Value } from "./value.js";

interface WaitsProps {
  readonly waits: readonly WaitInfo[];
  readonly nowMs: number;
}

/** What a task's run waits for, and how to answer it. */
export function Waits({ waits, nowMs }: WaitsProps) {
  if (waits.length === 0) return null;
  return (
    <section class="problem waits" aria-label="What its run waits for">
      <h2>{waits.every(({ isAnswered }) => isAnswered) ? "Its run is answered" : "Its run waits"}</h2>
      <ul class="commands">
        {waits.map((wait) => {
          const { kind, name, since, until, isAnswered, command } = wait;
          return (
            <li class="command" key={wait.key ?? `${kind} ${name}`}>
              <span>
                {kind === "event" ? "For the event " : "Sleep "}
                <strong>
                  <StoredText text={name} />
                </strong>
                ,{" "}
                {isAnswered ? "answered: the run continues once a worker or a program takes it" : forText(since, nowMs)}
                {!isAnswered &&
                  until !== undefined &&
                  `, until ${timeText(until)} UTC${kind === "event" ? " at most" : ""}`}
              </span>
              {command !== undefined && (
                <div class="line">
                  <code>{command}</code>
                  <CopyButton text={command} label={`Copy the command that answers ${name}`} />
                </div>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** The events that were sent to a task, the newest first. */
export function Events({ answer, nowMs }: { readonly answer: EventsAnswer; readonly nowMs: number }) {
  const { events, keyMissing, damage } = answer;
  if (events.length === 0 && damage.length === 0) return null;
  return (
    <section class="card" aria-label="Events">
      <header>
        <h2>Events</h2>
      </header>
      <div class="body run">
        {keyMissing && <Problem title="Their values can't be opened" error={keyMissing} />}
        <Damage damage={damage} />
        {events.map((event) => (
          <OneEvent key={event.id} event={event} nowMs={nowMs} />
        ))}
      </div>
    </section>
  );
}

function OneEvent({ event, nowMs }: { readonly event: EventInfo; readonly nowMs: number }) {
  const { name, by, sentAt, status, wait, value, error } = event;
  const tone = { pending: "waiting", received: "completed", refused: "failed" }[status];
  const head = (
    <>
      <strong class={`step-title ${tone}`}>
        <StoredText text={name} />
      </strong>{" "}
      <span class="small soft">
        {status}
        {wait?.isOpen === false && ", for a wait that isn't open"}
        {by !== undefined && (
          <>
            {" · from "}
            <StoredText text={by} />
          </>
        )}
        {` · ${agoText(sentAt, nowMs)}`}
        {error !== undefined && (
          <>
            {" · "}
            <StoredText text={error} />
          </>
        )}
      </span>
    </>
  );
  if (value === undefined) return <p class="step">{head}</p>;
  return (
    <details class="step">
      <summary>{head}</summary>
      <Value text={typedText(value)} label={`Value of ${name}`} />
    </details>
  );
}

/** How the text of the value is read. */
type Form = "text" | "json" | "none";

interface AnswerQuestionProps {
  readonly taskId: string;
  readonly wait: WaitInfo;
  /** The run's input: what the answer is about. */
  readonly input: Typed | undefined;
  readonly onClose: () => void;
  readonly onSent: () => void;
}

/** The box for an answer to a wait. */
export function AnswerQuestion({ taskId, wait, input, onClose, onSent }: AnswerQuestionProps) {
  const { api, say, session } = usePage();
  const [name, setName] = useState(wait.name);
  const [form, setForm] = useState<Form>("json");
  const [text, setText] = useState("");
  const [by, setBy] = useState(session.sender);
  const value = valueIn(form, text);
  const isWrong = value === undefined && text !== "";
  return (
    <Question
      title="Answer the run?"
      confirmText="Send"
      isReady={name !== "" && by !== "" && value !== undefined}
      onClose={onClose}
      onConfirm={async () => {
        // A second click, or a second person, must not answer the next wait of the name.
        const isForWait = wait.key !== undefined && name === wait.name;
        await api.ask("send", { taskId, name, by, ...value, ...(isForWait && { wait: wait.key }) });
        // The page shows whether a wait has received it.
        say("Sent.");
        onSent();
      }}
    >
      {input !== undefined && <Part title="Input of the run" text={typedText(input)} />}
      <label class="field">
        Name of the event
        <input
          type="text"
          maxLength={512}
          autocomplete="off"
          spellcheck={false}
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        The value is
        <select value={form} onChange={(event) => setForm(readForm(event.currentTarget.value))}>
          <option value="json">JSON</option>
          <option value="text">a text</option>
          <option value="none">left out</option>
        </select>
      </label>
      {form !== "none" && (
        <label class="field">
          Value
          <textarea
            spellcheck={false}
            aria-invalid={isWrong}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
      )}
      <p class="small soft" role="status">
        {isWrong ? "This is not valid JSON." : ""}
      </p>
      {isWrong && (
        <p>
          <button type="button" onClick={() => setForm("text")}>
            Take it as a text
          </button>
        </p>
      )}
      <label class="field">
        Sent by
        <input
          type="text"
          autocomplete="off"
          spellcheck={false}
          value={by}
          onInput={(event) => setBy(event.currentTarget.value)}
        />
      </label>
    </Question>
  );
}

/** The part of a request that has the value; `undefined` if the text isn't JSON. */
function valueIn(form: Form, text: string): { readonly value?: Json } | undefined {
  if (form === "none") return {};
  if (form === "text") return { value: text };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function readForm(text: string): Form {
  return text === "json" || text === "none" ? text : "text";
}
