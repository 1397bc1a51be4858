import { useState } from "preact/hooks";
import type { RunnerInfo } from "../../src/ui/api-parts.js";
import { usePage } from "./page.js";
import { Question } from "./question.js";
import { formatRoute } from "./route.js";
import { StoredText } from "./stored-text.js";

interface CheckpointQuestionProps {
  readonly task: { readonly taskId: string; readonly name: string; readonly runner?: RunnerInfo | undefined };
  readonly checkpoint: { readonly id: string; readonly sequence: number };
  readonly onClose: () => void;
  readonly go: (fragment: string) => void;
}

export function ForkQuestion({ task: { taskId }, checkpoint: { id, sequence }, onClose, go }: CheckpointQuestionProps) {
  const { api, say } = usePage();
  const [newTaskId, setNewTaskId] = useState("");
  return (
    <Question
      title={`Begin a new task at @${sequence}?`}
      confirmText="Fork"
      isReady={newTaskId !== ""}
      onClose={onClose}
      onConfirm={async (options) => {
        const forked = await api.ask("fork", { taskId, id, newTaskId, ...options });
        go(formatRoute({ view: "task", taskId: forked.taskId }));
        say("The new task begins with that state.");
      }}
    >
      <label class="field">
        Name of the new task
        <input
          type="text"
          maxLength={512}
          autocomplete="off"
          spellcheck={false}
          value={newTaskId}
          onInput={(event) => setNewTaskId(event.currentTarget.value)}
        />
      </label>
    </Question>
  );
}

export function RewindQuestion({ task, checkpoint: { id, sequence }, onClose, go }: CheckpointQuestionProps) {
  const { api, say } = usePage();
  const { taskId, name, runner } = task;
  return (
    <Question
      title={`Go back to @${sequence}?`}
      confirmText="Rewind"
      runner={runner}
      onClose={onClose}
      onConfirm={async (options) => {
        const { checkpoint: saved } = await api.ask("rewind", { taskId, id, ...options });
        go(formatRoute({ view: "task", taskId }));
        say(`The task continues at @${saved.sequence} with the state of @${sequence}.`);
      }}
    >
      <p>
        <StoredText text={name} /> gets a new checkpoint with the state of @{sequence}, and continues from there.
        Nothing is removed.
      </p>
    </Question>
  );
}
