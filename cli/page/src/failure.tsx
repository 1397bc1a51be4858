import type { StepAnswer } from "../../src/ui/api-runs.js";
import type { FailureInfo, TaskAnswer } from "../../src/ui/api-tasks.js";
import { CopyButton } from "./commands.js";
import { issueText } from "./issue-text.js";
import { OneError, Problem } from "./problem.js";
import { StoredText } from "./stored-text.js";
import { durationText } from "./times.js";
import { typedText } from "./typed.js";
import { Value } from "./value.js";

interface FailureProps {
  readonly answer: TaskAnswer;
  readonly failure: FailureInfo;
  /** Selects a step, by the sequence of its record. */
  readonly onSelect: (record: number) => void;
}

/** Shows why a task failed: the error, the failing step, and the result of the step before it. */
export function Failure({ answer, failure, onSelect }: FailureProps) {
  const { task, commands } = answer;
  const { error, step, before, input } = failure;
  if (task.status === "cancelled") return <Problem title="It was cancelled" error={{ ...error, name: "" }} />;
  const command = commands.find(({ action }) => action === "show")?.text;
  return (
    <section class="problem failed failure" aria-label="Why it failed">
      <div class="failure-parts">
        <div>
          <h2>
            It failed
            {step && (
              <>
                {" in "}
                <StepButton step={step} onSelect={onSelect} />
              </>
            )}
          </h2>
          <OneError error={error} />
          {error.causes.map((cause, index) => (
            <div key={index} class="causes">
              <span class="soft small">Caused by </span>
              <OneError error={cause} />
            </div>
          ))}
          <p class="small soft">{step && stepFacts(step)}</p>
          {input !== undefined && (
            <details class="small">
              <summary>Input of the run</summary>
              <Value text={typedText(input)} label="Input of the run" />
            </details>
          )}
          <CopyButton
            text={issueText(task, failure, command)}
            label="Copy for an issue, as Markdown"
            word="Copy for an issue"
          />
        </div>
        {before?.result !== undefined && (
          <div>
            <h3>
              Result of the step before, <StepButton step={before} onSelect={onSelect} />
            </h3>
            <Value text={typedText(before.result)} label={`Result of the step before, ${before.title}`} />
          </div>
        )}
      </div>
    </section>
  );
}

function StepButton({ step, onSelect }: { readonly step: StepAnswer; readonly onSelect: (record: number) => void }) {
  return (
    <button type="button" class="link-button" onClick={() => onSelect(step.record)}>
      <StoredText text={step.title} />
    </button>
  );
}

/** Returns a text such as `9 s · 3 tries · attempt 2 · input digest 3vT…`. */
export function stepFacts({ durationMs, attempts = 1, runAttempt, inputDigest, status }: StepAnswer): string {
  return [
    durationMs === undefined ? (status === "interrupted" ? "interrupted" : "not finished") : durationText(durationMs),
    attempts === 1 ? "1 try" : `${attempts} tries`,
    `attempt ${runAttempt}`,
    ...(inputDigest === undefined ? [] : [`input digest ${inputDigest}`]),
  ].join(" · ");
}
