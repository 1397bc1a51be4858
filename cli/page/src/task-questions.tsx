import { useState } from "preact/hooks";
import type { TaskRow } from "../../src/ui/api-tasks.js";
import { counted, countText } from "../../src/words.js";
import { usePage } from "./page.js";
import { Question } from "./question.js";
import { StoredText } from "./stored-text.js";

interface TaskQuestionProps {
  readonly task: TaskRow;
  readonly onClose: () => void;
  /** Called when the task was changed. */
  readonly onDone: () => void;
}

export function CompleteQuestion({ task, onClose, onDone }: TaskQuestionProps) {
  const { api, say } = usePage();
  const { taskId, name, newest, error, runner } = task;
  return (
    <Question
      title="Mark the task as completed?"
      confirmText="Complete"
      runner={runner}
      onClose={onClose}
      onConfirm={async (options) => {
        await api.ask("complete", { taskId, expectedSequence: newest?.sequence ?? 0, ...options });
        say("The task is completed.");
        onDone();
      }}
    >
      <p>
        <StoredText text={name} /> gets the status “completed” at its newest checkpoint, @{newest?.sequence}.
      </p>
      {error !== undefined && (
        <p>
          Its error is removed: <StoredText text={error} />
        </p>
      )}
    </Question>
  );
}

export function DeleteQuestion({ task, onClose, onDone }: TaskQuestionProps) {
  const { api, say } = usePage();
  const { taskId, name, count, runner } = task;
  return (
    <Question
      title="Remove the task?"
      confirmText="Remove"
      isDangerous
      runner={runner}
      onClose={onClose}
      onConfirm={async (options) => {
        const { removed } = await api.ask("delete", { taskId, ...options });
        onDone();
        say(`Removed ${counted(removed, "checkpoint")}.`);
      }}
    >
      <p>
        <StoredText text={name} /> is removed with all its checkpoints: {countText(count)}. This can't be undone.
      </p>
    </Question>
  );
}

/** Asks for the reason of a cancellation. */
export function CancelQuestion({ task, onClose, onDone }: TaskQuestionProps) {
  const { api, say } = usePage();
  const { taskId, name, runner } = task;
  const [reason, setReason] = useState("");
  return (
    <Question
      title="Cancel the task?"
      confirmText="Cancel the task"
      closeText="Keep it running"
      isDangerous
      isReady={reason !== ""}
      runner={runner}
      onClose={onClose}
      onConfirm={async () => {
        await api.ask("cancel", { taskId, reason });
        say("The task is cancelled.");
        onDone();
      }}
    >
      <p>
        <StoredText text={name} /> is recorded as cancelled. Later writes by its runner are refused. Its checkpoints
        stay. To run it again, pass <code>restart: true</code>, or remove the task and enqueue it again.
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

/** Asks whether to retry a failed task, and from which step on its steps run again. */
export function RetryQuestion({
  task,
  from: first = "",
  onClose,
  onDone,
}: TaskQuestionProps & { readonly from?: string | undefined }) {
  const { api, say } = usePage();
  const { taskId, name } = task;
  const [from, setFrom] = useState(first);
  return (
    <Question
      title="Retry the task?"
      confirmText="Retry"
      onClose={onClose}
      onConfirm={async () => {
        await api.ask("retry", { taskId, ...(from !== "" && { from }) });
        say("The task is queued: a worker or the next run continues it.");
        onDone();
      }}
    >
      <p>
        <StoredText text={name} /> gets the status “queued”. The step that failed is tried again.
      </p>
      <label class="field">
        Also run the steps again from this one on (optional)
        <input
          type="text"
          autocomplete="off"
          spellcheck={false}
          value={from}
          onInput={(event) => setFrom(event.currentTarget.value)}
        />
      </label>
    </Question>
  );
}
