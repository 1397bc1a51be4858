import type { CheckpointFailure, CheckpointSummary } from "waymark";
import { findDamage, isCorrupt, toSummary } from "waymark/adapter";
import { isRecord, type RunRecord, type StepRecord, stepText } from "waymark/kit";
import { parseThread } from "waymark/langgraph/records";
import { readLatest } from "../checkpoints.js";
import { DamagedCheckpointError } from "../damage.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { isKeyMissing } from "../key-advice.js";
import { describeTask } from "../langgraph/find-tasks.js";
import { describeCheckpoint, readState } from "../langgraph/thread-state.js";
import { LeaseReader } from "../leases.js";
import { jsonText } from "../printable.js";
import { readCheckpoints } from "../queries/checkpoints.js";
import { checkpointBefore, diffBetween } from "../queries/diff.js";
import { allSteps, hasTimedOut, isFromStorage, readRun } from "../run-steps.js";
import { formatPath } from "../state-path.js";
import type { Queries } from "./api.js";
import type { ErrorInfo, RunnerInfo } from "./api-parts.js";
import type { RunInfo, RunStep } from "./api-runs.js";
import type { Change, CheckpointAnswer } from "./api-states.js";
import { chatIn } from "./chat.js";
import { errorInfo } from "./error-info.js";
import { commandsFor } from "./offered-commands.js";
import type { PageSession } from "./page-session.js";
import { checkpointRow, describeRunner, pickDefined, timeAt } from "./rows.js";
import { partAtPath, searchState, typedPart, typedValue } from "./typed-values.js";

const MOST_CHANGES = 2_000;
const MOST_BESIDES = 200;

export async function answerCheckpoint(
  session: PageSession,
  { taskId, id }: Queries["checkpoint"]["request"],
): Promise<CheckpointAnswer> {
  const open = (checkpoint: CheckpointSummary) => openState(session, checkpoint);
  const exact = id === undefined ? undefined : await exactCheckpoint(session, taskId, id);
  const { checkpoint: stored, state } = exact
    ? { checkpoint: exact, state: await open(exact) }
    : await readLatest(session, taskId, open);
  const described = await describeCheckpoint(session, stored);
  const { checkpoint, interrupts } = described;
  const run = await readRun(session, stored);
  const runner = await findRunner(session, taskId, checkpoint.status === "running");
  const thread = parseThread(taskId, stored.metadata);
  const { metadata, error, sequence } = checkpoint;
  const around = async (order: "newest" | "oldest", bound: "beforeSequence" | "afterSequence") => {
    for await (const entry of readCheckpoints(session, { taskId, order, [bound]: sequence, limit: 1 })) {
      return { id: entry.checkpoint.id, sequence: entry.checkpoint.sequence };
    }
    return undefined;
  };
  const before = await around("newest", "beforeSequence");
  const after = await around("oldest", "afterSequence");
  return {
    now: timeAt(Date.now()),
    taskId,
    name: describeTask({ taskId }),
    checkpoint: checkpointRow(described),
    ...pickDefined({
      before,
      after,
      error: error && failureInfo(error),
      namespace: thread?.namespace,
      run: run && runInfo(run),
      runner,
    }),
    ...(metadata && { metadata: typedValue(metadata) }),
    asks: (interrupts ?? []).map((question) => jsonText(question)),
    ...state,
    damage: session.damage.records,
    commands: commandsFor(session).ofCheckpoint(checkpoint, {
      ...pickDefined({
        before: before?.sequence,
        run: after === undefined ? run : undefined,
        runner,
      }),
    }),
  };
}

/**
 * Returns the process that runs a task now or, if there is none, the last one if it didn't release its lease.
 *
 * @param mayHaveLapsed - Whether to look for a lease that wasn't released.
 */
export async function findRunner(
  session: PageSession,
  taskId: string,
  mayHaveLapsed: boolean,
): Promise<RunnerInfo | undefined> {
  const nowMs = Date.now();
  const leases = new LeaseReader(session);
  const lease = await leases.current(taskId);
  const lapsed = lease === undefined && mayHaveLapsed ? await leases.lapsed(taskId) : undefined;
  return describeRunner({ ...pickDefined({ lease, lapsed }) }, nowMs);
}

async function openState(
  session: PageSession,
  checkpoint: CheckpointSummary,
): Promise<Pick<CheckpointAnswer, "state" | "chat" | "keyMissing">> {
  try {
    const state = await readState(session, checkpoint);
    const chat = chatIn(parseThread(checkpoint.taskId) && isRecord(state) ? state["values"] : state);
    return { state: typedValue(state), ...pickDefined({ chat }) };
  } catch (error) {
    if (!isKeyMissing(error)) throw error;
    return { keyMissing: errorInfo(error) };
  }
}

function runInfo(run: RunRecord): RunInfo {
  const { generation, attempt, turn, isTurnOver, version: itsVersion, input, result } = run;
  return {
    generation,
    attempt,
    turn,
    isTurnOver,
    ...pickDefined({ version: itsVersion }),
    ...("input" in run && { input: typedValue(input) }),
    ...("result" in run && { result: typedValue(result) }),
    steps: allSteps(run).map(
      (step): RunStep => ({
        ...stepParts(step, run),
        ...("result" in step && { result: typedValue(step.result) }),
        ...("error" in step && { error: typedValue(step.error) }),
      }),
    ),
  };
}

export function stepParts(step: StepRecord, run: Pick<RunRecord, "attempt">): Omit<RunStep, "result" | "error"> {
  const { name, occurrence, startedAt, durationMs, attempts, runAttempt, status, waitsFor, ask } = step;
  const from = isFromStorage(step, run) ? "storage" : "ran";
  const title = stepText({ name, occurrence, status: "completed" });
  return {
    ...{ name, occurrence, title, startedAt, runAttempt, from, status },
    ...pickDefined({ durationMs, attempts, waitsFor, question: ask?.question }),
    ...(hasTimedOut(step) && { hasTimedOut: true }),
  };
}

export async function answerState(
  session: PageSession,
  request: Queries["state"]["request"],
): Promise<Queries["state"]["answer"]> {
  const state = await readState(session, await exactCheckpoint(session, request.taskId, request.id));
  const { value, text } = partAtPath(state, request.path);
  return { value: typedPart(value, request.from), text };
}

export async function answerSearch(
  session: PageSession,
  request: Queries["search"]["request"],
): Promise<Queries["search"]["answer"]> {
  const { taskId, id, text } = request;
  const checkpoint = await exactCheckpoint(session, taskId, id);
  const run = await readRun(session, checkpoint);
  const others = {
    ...(run && { run: { input: run.input, result: run.result, steps: allSteps(run).map(searchedStep) } }),
    ...(checkpoint.error && { error: checkpoint.error }),
  };
  const besides = searchState(others, text).found.filter((found) => found.in === "value");
  return {
    ...searchState(await readState(session, checkpoint), text),
    besides: besides.map((found) => ({ text: found.text, value: found.value })),
  };
}

function searchedStep({ name, result, error }: StepRecord): object {
  return { name, ...pickDefined({ result, error }) };
}

export async function answerDiff(
  session: PageSession,
  { taskId, from, fromTaskId = taskId, to }: Queries["diff"]["request"],
): Promise<Queries["diff"]["answer"]> {
  const newer = await exactCheckpoint(session, taskId, to);
  const older =
    from === undefined ? await checkpointBefore(session, newer) : await exactCheckpoint(session, fromTaskId, from);
  const { changes, besides } = await diffBetween(session, older, newer);
  return {
    from: checkpointRow(await describeCheckpoint(session, older)),
    to: checkpointRow(await describeCheckpoint(session, newer)),
    changes: changes.slice(0, MOST_CHANGES).map((change): Change => {
      const { path } = change;
      const text = formatPath(path);
      switch (change.kind) {
        case "added":
          return { kind: "added", path, text, to: typedValue(change.to) };
        case "removed":
          return { kind: "removed", path, text, from: typedValue(change.from) };
        case "moved":
          return { kind: "moved", path, text, toIndex: change.toIndex };
        default:
          return { kind: "changed", path, text, from: typedValue(change.from), to: typedValue(change.to) };
      }
    }),
    total: changes.length,
    besides: besides.slice(0, MOST_BESIDES),
    commands: commandsFor(session).ofDiff(older, newer),
  };
}

/**
 * Returns the checkpoint with exactly this id.
 *
 * @throws {CommandError} There is none.
 * @throws {DamagedCheckpointError} It can't be read.
 */
export async function exactCheckpoint(session: PageSession, taskId: string, id: string): Promise<CheckpointSummary> {
  const found = await session.storage.get(taskId, id);
  const what = `Checkpoint ${JSON.stringify(id)} of task ${JSON.stringify(taskId)}`;
  if (found === undefined)
    throw new CommandError(ExitCode.notFound, `${what} doesn't exist. It may have been removed.`);
  if (isCorrupt(found)) throw new DamagedCheckpointError(what, found);
  const reason = findDamage(found);
  if (reason === undefined) return toSummary(found);
  const { sequence } = found;
  throw new DamagedCheckpointError(what, { corrupt: true, location: `checkpoint ${id}`, reason, taskId, id, sequence });
}

export function failureInfo({ name = "Error", message, code, stack }: CheckpointFailure): ErrorInfo {
  return { name, message, ...pickDefined({ code, stack }), causes: [] };
}
