import type { Typed } from "../../src/ui/api-parts.js";
import type { WaitInfo } from "../../src/ui/api-runs.js";
import { useAnswer } from "./answer-fields.js";
import { Question } from "./question.js";
import { StoredText } from "./stored-text.js";
import { typedText } from "./typed.js";
import { Part } from "./value.js";

interface AnswerQuestionProps {
  readonly taskId: string;
  readonly wait: WaitInfo;
  /** The run's input: what the answer is about. */
  readonly input: Typed | undefined;
  readonly onClose: () => void;
  readonly onSent: () => void;
}

/** The dialog for an answer to a wait. */
export function AnswerQuestion({ input, onClose, ...asked }: AnswerQuestionProps) {
  const { question } = asked.wait;
  const { fields, isReady, send, choices } = useAnswer(asked);
  return (
    <Question
      title="Answer the run?"
      confirmText="Send"
      isReady={isReady}
      onClose={onClose}
      onConfirm={send}
      choices={choices}
    >
      {question !== undefined && (
        <p>
          <StoredText text={question} hasLines />
        </p>
      )}
      {input !== undefined && <Part title="Input of the run" text={typedText(input)} />}
      {fields}
    </Question>
  );
}
