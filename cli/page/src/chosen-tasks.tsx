import { useState } from "preact/hooks";
import type { ChoiceAnswer, ChooseRequest, ChosenAnswer } from "../../src/ui/api-choices.js";
import { counted, countText } from "../../src/words.js";
import { usePage } from "./page.js";
import { Problem } from "./problem.js";
import { Question, useConfirm } from "./question.js";
import { formatRoute } from "./route.js";
import { useAction } from "./use-action.js";

interface ChosenTasksProps {
  readonly request: ChooseRequest;
  /** The number of tasks, once it is known. */
  readonly tasks: number | undefined;
  /** Set if the tasks were chosen one by one. Without it, all tasks that match the filter are meant. */
  readonly onClear: (() => void) | undefined;
  readonly go: (fragment: string) => void;
  readonly onDone: () => void;
}

/** The actions on several tasks. Each action first counts what it would change. */
export function ChosenTasks({ request, tasks, onClear, go, onDone }: ChosenTasksProps) {
  const { api } = usePage();
  const { question, ask } = useAction();
  const { isBusy, error, run } = useConfirm(() => undefined);
  const choose = (act: (choice: ChoiceAnswer) => void) => run(async () => act(await api.ask("choose", request)));
  const all = onClear ? "" : " all";
  const number = tasks === undefined ? "" : ` ${countText(tasks)}`;
  return (
    <section class="line-of-buttons" aria-label="The chosen tasks">
      <button
        type="button"
        class="primary"
        disabled={isBusy}
        onClick={() =>
          choose((choice) => ask((close) => <RetryChosen choice={choice} onClose={close} onDone={onDone} />))
        }
      >
        Retry{all}
        {number} …
      </button>
      <button
        type="button"
        class="danger"
        disabled={isBusy}
        onClick={() =>
          choose((choice) => ask((close) => <CancelChosen choice={choice} onClose={close} onDone={onDone} />))
        }
      >
        Cancel{all}
        {number} …
      </button>
      <button
        type="button"
        disabled={isBusy}
        onClick={() => choose(({ choiceId }) => go(formatRoute({ view: "retention", choiceId })))}
      >
        Prune{all}
        {number} …
      </button>
      {onClear && (
        <button type="button" class="quiet" onClick={onClear}>
          Choose none
        </button>
      )}
      {error && <Problem title="The tasks can't be chosen" error={error} />}
      {question}
    </section>
  );
}

interface QuestionProps {
  readonly choice: ChoiceAnswer;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

function RetryChosen({ choice: { choiceId, tasks, retry }, onClose, onDone }: QuestionProps) {
  const { api, say } = usePage();
  return (
    <Question
      title={`Retry ${counted(retry, "task")}?`}
      confirmText={`Retry ${countText(retry)}`}
      isReady={retry > 0}
      onClose={onClose}
      onConfirm={async () => {
        const answer = await api.ask("retry-chosen", { choiceId });
        onDone();
        say(outcome(answer, "queued"));
      }}
    >
      <p>
        {counted(retry, "failed run")} of {counted(tasks, "chosen task")} get the status “queued”: a worker or the next
        run continues each at the step that failed. {left(tasks - retry)}
      </p>
    </Question>
  );
}

function CancelChosen({ choice: { choiceId, tasks, cancel, running }, onClose, onDone }: QuestionProps) {
  const { api, say } = usePage();
  const [reason, setReason] = useState("");
  return (
    <Question
      title={`Cancel ${counted(cancel, "task")}?`}
      confirmText={`Cancel ${counted(cancel, "task")}`}
      closeText="Keep them"
      isDangerous
      isReady={cancel > 0 && reason !== ""}
      onClose={onClose}
      onConfirm={async () => {
        const answer = await api.ask("cancel-chosen", { choiceId, reason });
        onDone();
        say(outcome(answer, "cancelled"));
      }}
    >
      <p>
        {counted(cancel, "run")} of {counted(tasks, "chosen task")} end for good, {countText(running)} of them while a
        process runs them. Checkpoints stay. {left(tasks - cancel)}
      </p>
      <label class="field">
        Reason
        <input
          type="text"
          autocomplete="off"
          value={reason}
          onInput={(event) => setReason(event.currentTarget.value)}
        />
      </label>
    </Question>
  );
}

function left(tasks: number): string {
  return tasks === 0 ? "" : `${countText(tasks)} more ${tasks === 1 ? "is left unchanged" : "are left unchanged"}.`;
}

/** @throws {Error} Some tasks could not be changed. */
function outcome({ changed, failed }: ChosenAnswer, word: string): string {
  const [first] = failed;
  const done = `${counted(changed, "task")} ${changed === 1 ? "is" : "are"} ${word}.`;
  if (first === undefined) return done;
  throw new Error(`${done} ${countText(failed.length)} could not be changed: ${first.error.message}`);
}
