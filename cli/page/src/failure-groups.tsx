import type { FailuresAnswer } from "../../src/ui/api-choices.js";
import { countText } from "../../src/words.js";
import type { TasksFilter } from "./route.js";
import { StoredText } from "./stored-text.js";

const WITHIN_TEXT: Readonly<Record<TasksFilter["within"], string>> = {
  ...{ "1h": "in the last hour", "24h": "in the last 24 hours", "7d": "in the last 7 days", all: "in all" },
};

interface FailureGroupsProps {
  readonly failures: FailuresAnswer | undefined;
  readonly within: TasksFilter["within"];
  /** Shows the tasks that failed with this error. */
  readonly onShow: (error: string) => void;
}

/** Shows the failures grouped by message, with a button for each group. */
export function FailureGroups({ failures, within, onShow }: FailureGroupsProps) {
  if (failures === undefined || failures.tasks === 0) return null;
  return (
    <section class="groups" aria-label="Failures by error">
      <p class="small soft">
        {countText(failures.tasks)} failed {WITHIN_TEXT[within]}
      </p>
      <ul>
        {failures.groups.map(({ error, tasks }) => (
          <li key={error}>
            <button type="button" onClick={() => onShow(error)}>
              <strong class="failed verdict">{countText(tasks)}</strong>
              <span class="one-line">
                <StoredText text={error === "" ? "without an error" : error} />
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
