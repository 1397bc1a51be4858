import type { ComponentChildren } from "preact";
import type { DamageInfo, ErrorInfo } from "../../src/ui/api-parts.js";
import { counted } from "../../src/words.js";
import { formatRoute } from "./route.js";
import { StoredText } from "./stored-text.js";
import { taskName } from "./task-name.js";

interface ProblemProps {
  readonly title: string;
  readonly error: ErrorInfo;
  readonly children?: ComponentChildren;
}

/** Shows an error with its causes. */
export function Problem({ title, error, children }: ProblemProps) {
  // Many messages quote their cause, so that cause isn't shown a second time.
  const causes = error.causes.filter(({ message, stack }) => stack !== undefined || !error.message.includes(message));
  return (
    <section class="problem failed">
      <h2>{title}</h2>
      <OneError error={error} />
      {causes.length > 0 && (
        <ol class="causes" aria-label="Caused by">
          {causes.map((cause, index) => (
            <li key={index}>
              <span class="soft small">Caused by </span>
              <OneError error={cause} />
            </li>
          ))}
        </ol>
      )}
      {children}
    </section>
  );
}

export function OneError({ error: { name, code, message, stack } }: { readonly error: Omit<ErrorInfo, "causes"> }) {
  return (
    <>
      <p>
        <StoredText text={message} hasLines />
        {[name, code].map(
          (text) =>
            text !== undefined &&
            text !== "" && (
              <>
                {" "}
                <code class="small soft">
                  <StoredText text={text} />
                </code>
              </>
            ),
        )}
      </p>
      {stack !== undefined && (
        <details>
          <summary class="small">Stack</summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls is reached by the keyboard. */}
          <pre tabIndex={0}>
            <StoredText text={stack} hasLines />
          </pre>
        </details>
      )}
    </>
  );
}

/** Returns the damage that several answers about one task have met: each record once. */
export function mergeDamage(
  answers: readonly ({ readonly damage: readonly DamageInfo[] } | undefined)[],
): readonly DamageInfo[] {
  const all = answers.flatMap((answer) => answer?.damage ?? []);
  const key = ({ sequence, location }: DamageInfo) => (sequence === undefined ? location : String(sequence));
  return [...new Map(all.map((record) => [key(record), record])).values()];
}

/** Lists the records that can't be read. */
export function Damage({
  damage,
  total = damage.length,
}: {
  readonly damage: readonly DamageInfo[];
  readonly total?: number;
}) {
  if (total === 0) return null;
  return (
    <details class="problem damaged">
      <summary>
        <strong>{counted(total, "record")} can't be read.</strong> {total === 1 ? "It was" : "They were"} left
        untouched. <a href="#/storage">Check all records</a>
      </summary>
      <ul class="causes">
        {damage.map(({ location, reason, taskId, sequence }) => (
          <li key={location}>
            {taskId !== undefined && (
              <a class="mono" href={formatRoute({ view: "task", taskId })}>
                <StoredText text={taskName(taskId)} />
              </a>
            )}{" "}
            {sequence !== undefined && `@${sequence}: `}
            <StoredText text={reason} />{" "}
            <code>
              <StoredText text={location} />
            </code>
          </li>
        ))}
        {total > damage.length && <li>… and {counted(total - damage.length, "more record")}</li>}
      </ul>
    </details>
  );
}

export function Warnings({ warnings }: { readonly warnings: readonly string[] }) {
  if (warnings.length === 0) return null;
  return (
    <ul class="problem paused causes">
      {warnings.map((warning) => (
        <li key={warning}>
          <StoredText text={warning} />
        </li>
      ))}
    </ul>
  );
}
