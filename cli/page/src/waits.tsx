import type { EventInfo, EventsAnswer, WaitInfo } from "../../src/ui/api-runs.js";
import { agoText, forText } from "../../src/words.js";
import { CopyButton } from "./commands.js";
import { Problem } from "./problem.js";
import { StoredText } from "./stored-text.js";
import { timeText } from "./times.js";
import { typedText } from "./typed.js";
import { Value } from "./value.js";

interface WaitsProps {
  readonly waits: readonly WaitInfo[];
  readonly nowMs: number;
}

/** Shows what a task's run waits for, and how to answer each wait. */
export function Waits({ waits, nowMs }: WaitsProps) {
  if (waits.length === 0) return null;
  return (
    <section class="problem waits" aria-label="What its run waits for">
      <h2>{waits.every(({ isAnswered }) => isAnswered) ? "Its run is answered" : "Its run waits"}</h2>
      <ul class="commands">
        {waits.map((wait) => {
          const { kind, name, since, until, isAnswered, command, question } = wait;
          return (
            <li class="command" key={wait.key ?? `${kind} ${name}`}>
              {question !== undefined && (
                <strong>
                  <StoredText text={question} hasLines />
                </strong>
              )}
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

/** Shows the events that were sent to a task, newest first. */
export function Events({ answer, nowMs }: { readonly answer: EventsAnswer; readonly nowMs: number }) {
  const { events, keyMissing } = answer;
  if (events.length === 0) return null;
  return (
    <section class="card" aria-label="Events">
      <header>
        <h2>Events</h2>
      </header>
      <div class="body run">
        {keyMissing && <Problem title="Their values can't be opened" error={keyMissing} />}
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
