import { useEffect, useState } from "preact/hooks";
import type { PlanCounts, PlannedRow, Policy, RetentionAnswer } from "../../src/ui/api-storage.js";
import { agoText, bytesText, counted, countText } from "../../src/words.js";
import { CommandList } from "./commands.js";
import { usePage } from "./page.js";
import { isPolicy, RULES, type Rule, readValues, withRule } from "./policy-rules.js";
import { Damage, Problem, Warnings } from "./problem.js";
import { useNow, useQuery } from "./queries.js";
import { Question } from "./question.js";
import { formatRoute } from "./route.js";
import { StatusMark, shownStatus } from "./status.js";
import { pictured, StoredText } from "./stored-text.js";
import { taskName } from "./task-name.js";
import { useAction } from "./use-action.js";

interface RetentionViewProps {
  readonly taskId?: string;
  /** The id of a choice of tasks in the list; limits the plan to these tasks. */
  readonly choiceId?: string;
}

const DEFAULT: Policy = { keepLast: 5 };

/** Shows the checkpoints that a policy would keep, before any is removed. */
export function RetentionView({ taskId, choiceId }: RetentionViewProps) {
  const { api, session, say } = usePage();
  const [policy, setPolicy] = useState<Policy>(() => session.retention ?? DEFAULT);
  const settled = useSettled(policy);
  const { answer, error, isLoading, reload } = useQuery("retention", {
    policy: isPolicy(settled) ? settled : DEFAULT,
    ...(taskId === undefined ? {} : { taskId }),
    ...(choiceId === undefined ? {} : { choiceId }),
  });
  const what = taskId !== undefined ? "the task" : choiceId !== undefined ? "the chosen tasks" : "all tasks";
  const { question, ask } = useAction();
  useEffect(() => {
    document.title =
      taskId === undefined ? "Retention · Waymark" : `Retention of ${pictured(taskName(taskId))} · Waymark`;
  }, [taskId]);

  const prune = (plan: RetentionAnswer) => {
    // The slider has moved since, so the question would be about an outdated plan.
    if (settled !== policy || isLoading) {
      say("The plan is being made. Try again.");
      return;
    }
    ask((close) => (
      <Question
        title="Remove what the plan removes?"
        confirmText={`Remove ${counted(plan.total.remove, "checkpoint")}`}
        isDangerous
        isReady={plan.total.remove > 0}
        onClose={close}
        onConfirm={async () => {
          const { removed, failed } = await api.ask("prune", { planId: plan.planId });
          const [first] = failed;
          reload();
          if (first) throw new Error(`${counted(failed.length, "task")} could not be pruned: ${first.error.message}`);
          say(`Removed ${counted(removed, "checkpoint")}.`);
        }}
      >
        <p>
          {bytesText(plan.total.removeBytes)} go, {bytesText(plan.total.keepBytes)} stay. This can't be undone. If a
          task has changed since, none of its checkpoints are removed.
        </p>
      </Question>
    ));
  };

  return (
    <>
      <div class="heading">
        <h1>
          Retention
          {choiceId !== undefined && <span class="soft"> of the chosen tasks</span>}
          {taskId !== undefined && (
            <>
              {" "}
              <span class="soft">of</span>{" "}
              <span class="mono">
                <StoredText text={taskName(taskId)} />
              </span>
            </>
          )}
        </h1>
        <p class="soft">What a policy would keep. Nothing is removed by looking.</p>
      </div>
      <div class="columns">
        <div class="column">
          <section class="card" aria-busy={isLoading}>
            <header>
              <h2>The plan</h2>
              {isLoading && answer !== undefined && (
                <span class="small soft" role="status">
                  Planning again …
                </span>
              )}
            </header>
            <div class="body">
              {error && <Problem title="The plan can't be made" error={error} />}
              {answer && <Total total={answer.total} />}
              {isLoading && answer === undefined && <p class="soft">Reading {what} …</p>}
            </div>
            {answer?.checkpoints && taskId !== undefined && <Planned taskId={taskId} rows={answer.checkpoints} />}
            {answer && taskId === undefined && <Tasks answer={answer} />}
          </section>
          {answer && <Warnings warnings={answer.warnings} />}
          {answer && <Damage damage={answer.damage} />}
        </div>
        <div class="column">
          <section class="card">
            <header>
              <h2>The policy</h2>
              {session.retention && (
                <button type="button" class="end" onClick={() => setPolicy(session.retention ?? DEFAULT)}>
                  As configured
                </button>
              )}
            </header>
            <div class="body">
              <fieldset class="rules">
                <legend class="only-read">Rules</legend>
                {RULES.map((rule) => (
                  <RuleSlider key={rule.name} rule={rule} policy={policy} onChange={setPolicy} />
                ))}
              </fieldset>
              {policy.keepStages && (
                <p class="small soft">
                  Always kept: the stages <StoredText text={policy.keepStages.join(", ")} />
                </p>
              )}
              {!isPolicy(policy) && (
                <p class="small failed verdict">Without a rule there is no policy. The plan keeps the last 5.</p>
              )}
            </div>
          </section>
          {answer && (
            <section class="card">
              <header>
                <h2>What can be done</h2>
              </header>
              <div class="body">
                <CommandList commands={answer.commands} actions={{ prune: () => prune(answer) }} />
                {choiceId !== undefined && (
                  <button type="button" class="danger" onClick={() => prune(answer)}>
                    Prune …
                  </button>
                )}
              </div>
            </section>
          )}
        </div>
      </div>
      {question}
    </>
  );
}

interface RuleSliderProps {
  readonly rule: Rule;
  readonly policy: Policy;
  readonly onChange: (policy: Policy) => void;
}

function RuleSlider({ rule, policy, onChange }: RuleSliderProps) {
  const value = policy[rule.name];
  const values = readValues(rule, value);
  return (
    <div class="rule">
      <label>
        <input
          type="checkbox"
          checked={value !== undefined}
          onChange={(event) =>
            onChange(withRule(policy, rule.name, event.currentTarget.checked ? rule.start : undefined))
          }
        />
        {rule.title}
      </label>
      <input
        type="range"
        aria-label={rule.title}
        aria-valuetext={value === undefined ? "off" : rule.text(value)}
        min={0}
        max={values.length - 1}
        step={1}
        value={values.indexOf(value ?? rule.start)}
        disabled={value === undefined}
        onInput={(event) => onChange(withRule(policy, rule.name, values[Number(event.currentTarget.value)]))}
      />
      <output class={value === undefined ? "soft" : ""}>{value === undefined ? "off" : rule.text(value)}</output>
    </div>
  );
}

function Total({ total: { keep, remove, keepBytes, removeBytes } }: { readonly total: PlanCounts }) {
  return (
    <div role="status">
      <div class="share" aria-hidden="true">
        <span style={{ flexGrow: String(keepBytes) }} />
        <span class="removed" style={{ flexGrow: String(removeBytes) }} />
      </div>
      <p class="share-words">
        <span>
          <strong class="stays verdict">stay</strong> {counted(keep, "checkpoint")}, {bytesText(keepBytes)}
        </span>
        <span>
          <strong class="goes verdict">go</strong> {counted(remove, "checkpoint")}, {bytesText(removeBytes)}
        </span>
      </p>
    </div>
  );
}

function Planned({ taskId, rows }: { readonly taskId: string; readonly rows: readonly PlannedRow[] }) {
  const nowMs = useNow(10_000);
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Checkpoint</th>
          <th scope="col">Plan</th>
          <th scope="col">Why</th>
          <th scope="col" class="number wide-only">
            Saved
          </th>
          <th scope="col" class="number">
            Bytes
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map(
          ({ checkpoint, checkpoint: { id, sequence, stage, label, createdAt, sizeBytes }, stays, reasons }) => (
            <tr key={id} class={stays ? "stays" : "goes"}>
              <td class="anywhere">
                <a href={formatRoute({ view: "checkpoint", taskId, id })}>@{sequence}</a>{" "}
                {checkpoint.status !== "running" && <StatusMark status={shownStatus(checkpoint)} />}
                <div class="small soft">
                  <StoredText text={label ?? stage ?? ""} />
                </div>
              </td>
              <td class="verdict">{stays ? "✓ stays" : "✕ goes"}</td>
              <td class="reasons anywhere">
                <StoredText text={reasons.join(", ")} />
              </td>
              <td class="number wide-only">{agoText(createdAt, nowMs)}</td>
              <td class="number">{bytesText(sizeBytes)}</td>
            </tr>
          ),
        )}
      </tbody>
    </table>
  );
}

function Tasks({ answer: { tasks, total } }: { readonly answer: RetentionAnswer }) {
  if (tasks.length === 0) return <p class="empty">No task would lose anything.</p>;
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Task</th>
          <th scope="col" class="number">
            Stay
          </th>
          <th scope="col" class="number">
            Go
          </th>
          <th scope="col" class="number">
            Bytes that go
          </th>
        </tr>
      </thead>
      <tbody>
        {tasks.map(({ taskId, name, keep, remove, removeBytes }) => (
          <tr key={taskId}>
            <td class="anywhere mono">
              <a href={formatRoute({ view: "retention", taskId })}>
                <StoredText text={name} />
              </a>
            </td>
            <td class="number">{countText(keep)}</td>
            <td class="number">{countText(remove)}</td>
            <td class="number">{bytesText(removeBytes)}</td>
          </tr>
        ))}
      </tbody>
      <caption class="small soft">
        The first {countText(tasks.length)} of {counted(total.tasks, "task")}.
      </caption>
    </table>
  );
}

/** Returns the policy once the slider has stopped for a moment. */
function useSettled(policy: Policy): Policy {
  const [settled, setSettled] = useState(policy);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(policy), 120);
    return () => clearTimeout(timer);
  }, [policy]);
  return settled;
}
