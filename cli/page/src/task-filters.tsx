import type { Ref } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { TaskStatus } from "../../src/ui/api-parts.js";
import type { CountsAnswer } from "../../src/ui/api-tasks.js";
import { countText } from "../../src/words.js";
import { readWithin, STATUSES, type TasksFilter } from "./route.js";
import { StatusMark } from "./status.js";
import { StoredText } from "./stored-text.js";

interface TaskFiltersProps {
  readonly filter: TasksFilter;
  readonly counts: CountsAnswer | undefined;
  readonly field: Ref<HTMLInputElement>;
  readonly onChange: (change: Partial<TasksFilter>) => void;
  /** Called when the search is done, to focus the list. */
  readonly onLeave: () => void;
}

/** Shows the search, and the filters by status and time. */
export function TaskFilters({ filter, counts, field, onChange, onLeave }: TaskFiltersProps) {
  return (
    <search class="filters">
      <Search filter={filter} field={field} onChange={onChange} onLeave={onLeave} />
      <fieldset class="choice">
        <legend class="only-read">Status</legend>
        {STATUSES.filter((status) => filter.status.includes(status) || counts?.byStatus[status] !== 0).map((status) => (
          <button
            type="button"
            key={status}
            aria-pressed={filter.status.includes(status)}
            title={`Key: ${STATUS_KEYS[status]}`}
            onClick={() => onChange({ status: toggled(filter.status, status) })}
          >
            <StatusMark status={status} />
            {counts && <span class="soft">{countText(counts.byStatus[status])}</span>}
          </button>
        ))}
      </fieldset>
      <select
        aria-label="Saved"
        value={filter.within}
        onChange={(event) => onChange({ within: readWithin(event.currentTarget.value) })}
      >
        <option value="all">at any time</option>
        <option value="1h">in the last hour</option>
        <option value="24h">in the last 24 hours</option>
        <option value="7d">in the last 7 days</option>
      </select>
      <select
        aria-label="Order"
        value={filter.order}
        onChange={(event) => onChange({ order: event.currentTarget.value === "taskId" ? "taskId" : "recent" })}
      >
        <option value="recent">last saved first</option>
        <option value="taskId">by name</option>
      </select>
      {filter.error !== undefined && (
        <button
          type="button"
          aria-pressed={true}
          class="error-filter"
          title="Show tasks with any error"
          onClick={() => onChange({ error: undefined })}
        >
          <span class="one-line">
            <StoredText text={filter.error === "" ? "failed without an error" : filter.error} />
          </span>
          ✕
        </button>
      )}
    </search>
  );
}

/** The list is read after a pause in typing, because a search reads every task. */
const TYPING_MS = 250;

function Search({ filter, field, onChange, onLeave }: Omit<TaskFiltersProps, "counts">) {
  const isPrefix = filter.prefix !== "";
  const [isByPrefix, setIsByPrefix] = useState(isPrefix);
  const [text, setText] = useState(isPrefix ? filter.prefix : filter.text);
  const shown = isPrefix ? filter.prefix : filter.text;
  // The address was changed by hand, or by the browser's Back button.
  useEffect(() => setText(shown), [shown]);
  const apply = (next: string, byPrefix = isByPrefix) =>
    onChange(byPrefix ? { prefix: next, text: "" } : { prefix: "", text: next });
  useEffect(() => {
    if (text === shown) return;
    const timer = setTimeout(() => apply(text), isByPrefix ? 0 : TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <span class="search">
      <select
        aria-label="Search for"
        value={isByPrefix ? "prefix" : "text"}
        onChange={(event) => {
          const byPrefix = event.currentTarget.value === "prefix";
          setIsByPrefix(byPrefix);
          if (text !== "") apply(text, byPrefix);
        }}
      >
        <option value="text">Any text</option>
        <option value="prefix">Name begins with</option>
      </select>
      <input
        ref={field}
        type="search"
        placeholder={isByPrefix ? "Name begins with …" : "Name, error, stage or label"}
        aria-label="Search"
        autocomplete="off"
        spellcheck={false}
        maxLength={512}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" || event.key === "ArrowDown") {
            event.preventDefault();
            apply(text);
            onLeave();
          }
          if (event.key === "Escape") {
            event.preventDefault();
            setText("");
            apply("");
            onLeave();
          }
        }}
      />
    </span>
  );
}

export const STATUS_KEYS: Readonly<Record<TaskStatus, string>> = {
  ...{ running: "r", queued: "q", scheduled: "l", waiting: "w", interrupted: "i" },
  ...{ paused: "p", failed: "f", cancelled: "x", completed: "c" },
};

export const STATUS_WORDS: Readonly<Record<TaskStatus, string>> = {
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

export function toggled(statuses: readonly TaskStatus[], status: TaskStatus): readonly TaskStatus[] {
  return statuses.includes(status) ? statuses.filter((one) => one !== status) : [...statuses, status];
}
