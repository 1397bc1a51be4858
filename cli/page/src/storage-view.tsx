import { useEffect, useRef, useState } from "preact/hooks";
import type { ErrorInfo } from "../../src/ui/api-parts.js";
import type { Finding, RepairAnswer, StorageAnswer, VerifyMessage } from "../../src/ui/api-storage.js";
import { agoText, bytesText, checkpointsText, counted, countText } from "../../src/words.js";
import { errorInfo, isAbort } from "./api.js";
import { CommandList } from "./commands.js";
import { useKeys } from "./keys.js";
import { usePage } from "./page.js";
import { Problem } from "./problem.js";
import { useNow, useQuery } from "./queries.js";
import { Question } from "./question.js";
import { formatRoute } from "./route.js";
import { StatusMark } from "./status.js";
import { StoredText } from "./stored-text.js";
import { taskName } from "./task-name.js";
import { useAction } from "./use-action.js";

/** Shows the storage itself: its size, its damage, and the records that repairs moved away. */
export function StorageView() {
  const { api, say } = usePage();
  const { answer, error, reload } = useQuery("storage", {});
  const counts = useQuery("counts", {}).answer;
  const check = useVerify();
  const { question, ask } = useAction();
  useKeys("Storage", [{ keys: ["v"], what: "look for damage", run: check.start }]);
  useEffect(() => {
    document.title = "Storage · Waymark";
  }, []);

  const repair = async () => {
    const plan = await api.ask("repair-plan", {});
    ask((close) => (
      <Question
        title="Move damaged records to the quarantine?"
        confirmText="Repair"
        isDangerous
        isReady={plan.steps.some(({ action }) => action !== "left")}
        onClose={close}
        onConfirm={async () => {
          const { steps } = await api.ask("repair", {});
          say(
            `${counted(steps.filter(({ action }) => action === "quarantined").length, "record")} moved to the quarantine.`,
          );
          reload();
          check.start();
        }}
      >
        <RepairSteps plan={plan} />
      </Question>
    ));
  };

  if (error) return <Problem title="The storage can't be shown" error={error} />;
  if (answer === undefined) return <p class="empty">Reading …</p>;
  return (
    <>
      <div class="heading">
        <h1>Storage</h1>
      </div>
      <dl class="facts">
        <div>
          <dt>Where</dt>
          <dd class="mono">
            <StoredText text={answer.name} />
          </dd>
        </div>
        <div>
          <dt>Kind</dt>
          <dd>{answer.kind}</dd>
        </div>
        {answer.bytesOnDisk !== undefined && (
          <div>
            <dt>On the disk</dt>
            <dd>{bytesText(answer.bytesOnDisk)}</dd>
          </div>
        )}
        <div>
          <dt>Holds</dt>
          <dd class={counts ? "" : "soft"}>
            {counts ? `${counted(counts.tasks, "task")}, ${counted(counts.checkpoints, "checkpoint")}` : "Reading …"}
          </dd>
        </div>
        <div>
          <dt>Survives</dt>
          <dd>{answer.isDurable ? "a killed process" : "nothing: it lives in memory"}</dd>
        </div>
        <div>
          <dt>Processes at once</dt>
          <dd>{answer.isMultiProcess ? "many" : "one"}</dd>
        </div>
      </dl>
      <div class="columns">
        <div class="column">
          <section class="card">
            <header>
              <h2>Damage</h2>
              <button type="button" class="end" disabled={check.isRunning} onClick={check.start}>
                {check.isRunning ? "Looking …" : "Look for damage"} <kbd>v</kbd>
              </button>
            </header>
            <Findings check={check} />
          </section>
          {answer.quarantine && <Quarantine quarantine={answer.quarantine} />}
        </div>
        <div class="column">
          <section class="card">
            <header>
              <h2>What can be done</h2>
            </header>
            <div class="body">
              <CommandList
                commands={answer.commands}
                actions={{
                  repair: () => {
                    repair().catch((failure: unknown) => say(errorInfo(failure).message));
                  },
                }}
              />
            </div>
          </section>
        </div>
      </div>
      {question}
    </>
  );
}

interface Check {
  readonly start: () => void;
  readonly isRunning: boolean;
  readonly last: Exclude<VerifyMessage, { kind: "failed" }> | undefined;
  readonly error: ErrorInfo | undefined;
}

/** Runs the search for damage, which ends when the view is left. */
function useVerify(): Check {
  const { api } = usePage();
  const [state, setState] = useState<Omit<Check, "start">>({ isRunning: false, last: undefined, error: undefined });
  const running = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => running.current?.abort(), []);

  const start = () => {
    if (state.isRunning) return;
    const stopped = new AbortController();
    running.current = stopped;
    setState({ isRunning: true, last: undefined, error: undefined });
    void (async () => {
      try {
        for await (const message of api.watch("verify", {}, stopped.signal)) {
          if (message.kind === "failed") setState({ isRunning: false, last: undefined, error: message.error });
          else setState({ isRunning: message.kind === "progress", last: message, error: undefined });
        }
      } catch (error) {
        if (!isAbort(error)) setState({ isRunning: false, last: undefined, error: errorInfo(error) });
      }
    })();
  };
  return { ...state, start };
}

function Findings({ check: { last, error, isRunning } }: { readonly check: Check }) {
  return (
    <div class="body" role="status">
      {error && <Problem title="The search ended" error={error} />}
      {last === undefined && error === undefined && (
        <p class="soft">
          {isRunning
            ? "Looking …"
            : "Not looked at yet: every record's checksum is read, which takes a while on a large storage."}
        </p>
      )}
      {last && (
        <p>
          {last.kind === "progress" ? "Looked at" : "Looked at all"} {checkpointsText(last.checkpoints, last.records)}{" "}
          of {counted(last.tasks, "task")}, {bytesText(last.bytes)}:{" "}
          {last.kind === "progress"
            ? counted(last.findings, "finding")
            : last.total === 0
              ? "everything is intact."
              : `${counted(last.total, "finding")}.`}
        </p>
      )}
      {isRunning && <progress aria-label="Looking for damage" />}
      {last?.kind === "done" && last.findings.length > 0 && (
        <ul class="findings">
          {last.findings.map((finding) => (
            <FindingItem key={finding.location} finding={finding} />
          ))}
          {last.total > last.findings.length && <li>… and {countText(last.total - last.findings.length)} more.</li>}
        </ul>
      )}
    </div>
  );
}

function FindingItem({ finding: { kind, location, reason, taskId, sequence, at } }: { readonly finding: Finding }) {
  const nowMs = useNow(10_000);
  return (
    <li class="anywhere">
      <StatusMark status={kind === "damaged" ? "damaged" : "unknown"} /> {kind !== "damaged" && <strong>{kind}</strong>}{" "}
      <StoredText text={reason} />
      <div class="small soft">
        {taskId !== undefined && (
          <>
            <a class="mono" href={formatRoute({ view: "task", taskId })}>
              <StoredText text={taskName(taskId)} />
            </a>
            {sequence !== undefined && ` @${sequence}`}
            {" · "}
          </>
        )}
        {at !== undefined && `${agoText(at, nowMs)} · `}
        <code>
          <StoredText text={location} />
        </code>
      </div>
    </li>
  );
}

function RepairSteps({ plan: { steps } }: { readonly plan: RepairAnswer }) {
  if (steps.length === 0) return <p>There is no damage.</p>;
  return (
    <ul class="findings">
      {steps.map(({ action, finding, text }) => (
        <li key={finding.location} class="anywhere small">
          <strong>{{ quarantined: "moved", removed: "removed", left: "left as it is" }[action]}</strong>:{" "}
          <StoredText text={finding.reason} />{" "}
          <span class="soft">
            <StoredText text={text} />
          </span>
        </li>
      ))}
    </ul>
  );
}

function Quarantine({
  quarantine: { location, total, records },
}: {
  readonly quarantine: NonNullable<StorageAnswer["quarantine"]>;
}) {
  const nowMs = useNow(10_000);
  return (
    <section class="card">
      <header>
        <h2>Quarantine</h2>
        <span class="small soft">{counted(total, "record")}</span>
      </header>
      <div class="body">
        <p class="small soft anywhere">
          Repairs move damaged records to{" "}
          <code>
            <StoredText text={location} />
          </code>
          {total === 0 ? ". It is empty." : "."}
        </p>
        {records.length > 0 && (
          <ul class="findings">
            {records.map(({ location, reason, at, taskId, sequence, sizeBytes }) => (
              <li key={location} class="anywhere">
                {reason !== undefined && <StoredText text={reason} />}
                <div class="small soft">
                  {taskId !== undefined && <StoredText text={taskName(taskId)} />}
                  {sequence !== undefined && ` @${sequence}`}
                  {at !== undefined && ` · ${agoText(at, nowMs)}`}
                  {sizeBytes !== undefined && ` · ${bytesText(sizeBytes)}`}{" "}
                  <code>
                    <StoredText text={location} />
                  </code>
                </div>
              </li>
            ))}
          </ul>
        )}
        {total > records.length && (
          <p class="small soft">
            The newest {countText(records.length)} of {countText(total)}.
          </p>
        )}
      </div>
    </section>
  );
}
