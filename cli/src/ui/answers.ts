import {
  type CheckpointFailure,
  CheckpointNotFoundError,
  type CheckpointSummary,
  type RetentionPlan,
  type RunRecord,
  type StepRecord,
} from "waymark";
import { isCorrupt, summaryOf } from "waymark/adapter";
import { CHECKPOINT_STATUSES, stepText } from "waymark/kit";
import { threadOf } from "waymark/langgraph/records";
import { bytesOnDisk } from "../bytes-on-disk.js";
import { readLatest } from "../checkpoints.js";
import { DamagedCheckpointError } from "../damage.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { firstOf } from "../first-of.js";
import { isKeyMissing } from "../key-advice.js";
import { findTasks, nameOf, refuseThread, wholeThread } from "../langgraph/find-tasks.js";
import { describeCheckpoint, readState } from "../langgraph/thread-state.js";
import { LeaseReader } from "../leases.js";
import { jsonText } from "../printable.js";
import { checkpointsOf } from "../queries/checkpoints.js";
import { checkpointBefore, diffBetween } from "../queries/diff.js";
import { listQuarantine } from "../queries/quarantine.js";
import { PolicyPlans } from "../queries/retention.js";
import { listTasks } from "../queries/tasks.js";
import { timelineOf } from "../queries/timeline.js";
import { readableSummaries } from "../read-stored.js";
import { allSteps, hasTimedOut, isFromStorage, readRun } from "../run-steps.js";
import { sender } from "../sender.js";
import { formatPath } from "../state-path.js";
import { managerOf } from "../store.js";
import { version } from "../version.js";
import { answerCommand, listSignals, pendingWaits } from "../waits.js";
import type { Call, Queries, Session } from "./api.js";
import type { Command, ErrorInfo } from "./api-parts.js";
import type { RunInfo, RunStep, SignalsAnswer, TimelineAttempt, TimelineMark, TimelineStep } from "./api-runs.js";
import type { Change, CheckpointAnswer } from "./api-states.js";
import type { PlannedRow, Policy, RetentionAnswer } from "./api-storage.js";
import type { CountsAnswer, TaskRow } from "./api-tasks.js";
import { errorInfo } from "./error-info.js";
import { givingWay } from "./giving-way.js";
import { commandsFor } from "./offered-commands.js";
import type { PageSession } from "./page-session.js";
import { checkpointRow, given, runnerOf, taskRow } from "./rows.js";
import { partAtPath, searchState, typedPart, typedValue } from "./typed-values.js";

type Answer<Name extends keyof Queries> = Promise<Queries[Name] extends Call<unknown, infer Given> ? Given : never>;
type Request<Name extends keyof Queries> = Queries[Name]["request"];

const DEFAULT_CHECKPOINTS = 200;
const MOST_SAVES = 2_000;
const MOST_CHANGES = 2_000;
const MOST_BESIDES = 200;
const MOST_PLANNED_TASKS = 500;
const MOST_QUARANTINED = 200;
const MOST_SIGNALS = 100;

export async function answerSession(session: PageSession, canWrite: boolean): Promise<Session> {
  const { storage, name } = session;
  const config = await session.config().catch(errorInfo);
  const { file, retention } = "folder" in config ? config : {};
  const configError = "folder" in config ? undefined : config;
  return {
    name,
    kind: storage.name,
    version: version(),
    canWrite,
    ...given({ configFile: file, configError, retention }),
    hasLeases: storage.leases !== undefined,
    sender: sender(),
    now: nowText(),
    statuses: CHECKPOINT_STATUSES,
    commands: commandsFor(session).ofStorage(),
  };
}

/** Counts all tasks. */
export async function answerCounts(session: PageSession): Promise<CountsAnswer> {
  const byStatus = { running: 0, paused: 0, completed: 0, failed: 0 };
  let tasks = 0;
  let checkpoints = 0;
  for await (const { count, newest } of givingWay(findTasks(session, { order: "taskId" }))) {
    tasks += 1;
    checkpoints += count;
    byStatus[newest.status] += 1;
  }
  let held = 0;
  for await (const _lease of session.storage.leases?.held() ?? []) held += 1;
  return { tasks, checkpoints, byStatus, held, damage: session.damage.records, damaged: session.damage.total };
}

export async function answerTask(session: PageSession, request: Request<"task">): Answer<"task"> {
  const { taskId, beforeSequence, limit = DEFAULT_CHECKPOINTS } = request;
  const task = await findTaskRow(session, taskId);
  if (task === undefined) throw noSuchTask(session, taskId);
  const checkpoints = [];
  let last: number | undefined;
  // One more tells whether there is another page.
  for await (const described of checkpointsOf(session, { taskId, order: "newest", beforeSequence, limit: limit + 1 })) {
    if (checkpoints.length === limit) {
      last = checkpoints.at(-1)?.sequence;
      break;
    }
    checkpoints.push(checkpointRow(described));
  }
  const { damage } = session;
  const offered = { policy: await configuredPolicy(session), run: await goingOn(session, task), checkpoints };
  return {
    now: nowText(),
    task,
    checkpoints,
    ...given({ beforeSequence: last }),
    damage: damage.records,
    warnings: damage.warnings,
    commands: commandsFor(session).ofTask(task, offered),
  };
}

/** The configuration's policy. The session says if the configuration can't be used. */
async function configuredPolicy(session: PageSession): Promise<Policy | undefined> {
  return session.config().then(
    ({ retention }) => retention,
    () => undefined,
  );
}

/** The record of the run that a task's newest checkpoint goes on with, if it can be read. */
async function goingOn(session: PageSession, { taskId, newest, status }: TaskRow): Promise<RunRecord | undefined> {
  if (newest === undefined || status === "completed") return undefined;
  try {
    return await runOf(session, await exactCheckpoint(session, taskId, newest.id));
  } catch (error) {
    // It was removed meanwhile, or its state is damaged, which its own page says.
    if (error instanceof CommandError || error instanceof DamagedCheckpointError) return undefined;
    throw error;
  }
}

/** The record of a checkpoint's run; `undefined` if the checkpoint has just been replaced. */
async function runOf(session: PageSession, checkpoint: CheckpointSummary): Promise<RunRecord | undefined> {
  try {
    return await readRun(session, checkpoint);
  } catch (error) {
    if (!(error instanceof CheckpointNotFoundError)) throw error;
    return undefined;
  }
}

/** Finds a task by its id; `undefined` if there is none. */
export async function findTaskRow(session: PageSession, taskId: string): Promise<TaskRow | undefined> {
  const prefix = wholeThread(taskId)?.id ?? taskId;
  // By id, the task comes before all longer ids with this prefix, but threads may come between.
  for await (const task of listTasks(session, { order: "taskId", prefix })) {
    if (task.taskId !== taskId) continue;
    const damage = session.damage.records.filter((record) => record.taskId === taskId);
    return taskRow(task, Date.now(), damage);
  }
  return undefined;
}

export async function answerTimeline(session: PageSession, { taskId }: Request<"timeline">): Answer<"timeline"> {
  const nowMs = Date.now();
  const { steps, attempts, checkpoints, keyMissing } = await timelineOf(session, taskId, MOST_SAVES);
  if (checkpoints.length === 0 && session.damage.total === 0) throw noSuchTask(session, taskId);
  const sequences = new Map(checkpoints.map(({ id, sequence }) => [id, sequence]));
  const leases = new LeaseReader(session);
  const lease = await leases.current(taskId);
  const lapsed = lease === undefined ? await leases.lapsed(taskId) : undefined;
  const runner = runnerOf({ ...given({ lease, lapsed }) }, nowMs);
  return {
    now: nowText(),
    steps: steps.map(({ step, run, checkpoint }): TimelineStep => {
      const isEnd = step.status === "failed" && !("error" in step);
      const error = isEnd ? checkpoint.error?.message : messageIn(step.error);
      return {
        ...stepParts(step, run),
        pass: run.pass,
        generation: run.generation,
        ...given({ error }),
        checkpointId: checkpoint.id,
        sequence: checkpoint.sequence,
      };
    }),
    attempts: attempts.map((one, index): TimelineAttempt => {
      const { generation, attempt, startedAt, lastSeenAt, checkpoint } = one;
      const isLast = index === attempts.length - 1;
      const ofLast = runner === undefined ? "unknown" : runner.state === "held" ? "running" : "killed";
      const end = one.end === "open" ? (isLast ? ofLast : "unknown") : one.end;
      const error = checkpoint?.error?.message;
      return {
        generation,
        attempt,
        startedAt,
        lastSeenAt,
        end,
        ...given({ error, runner: isLast ? runner : undefined }),
      };
    }),
    marks: checkpoints.flatMap((checkpoint) => markOf(checkpoint, sequences) ?? []),
    saves: checkpoints.map(
      ({ sequence, createdAt, sizeBytes }) => [sequence, Date.parse(createdAt), sizeBytes] as const,
    ),
    ...given({ keyMissing: keyMissing && errorInfo(keyMissing) }),
    damage: session.damage.records,
  };
}

export async function answerSignals(session: PageSession, taskId: string): Promise<SignalsAnswer> {
  const [newest] = await firstOf(readableSummaries(session, { taskId, order: "newest", limit: 1 }));
  const run = newest && (await runOf(session, newest));
  const waits = newest === undefined ? [] : await pendingWaits(session, newest, run);
  return {
    now: nowText(),
    waits: waits.map((wait) => ({
      ...wait,
      ...(wait.kind === "signal" && !wait.isAnswered && { command: answerCommand(session, taskId, wait.name) }),
    })),
    ...(waits.length > 0 && run?.input !== undefined && { input: typedValue(run.input) }),
    ...(await signalsOf(session, taskId)),
    damage: session.damage.records,
  };
}

async function signalsOf(session: PageSession, taskId: string): Promise<Pick<SignalsAnswer, "signals" | "keyMissing">> {
  const manager = managerOf(session.storage, await session.config(), session.damage);
  manager.on("corrupt", (record) => void session.damage.add(record));
  try {
    const sent = (await manager.signals(taskId)).slice(-MOST_SIGNALS).reverse();
    return {
      signals: sent.map(({ value, error, ...signal }) => ({
        ...signal,
        ...(value !== undefined && { value: typedValue(value) }),
        ...(error && { error: error.message }),
      })),
    };
  } catch (error) {
    if (!isKeyMissing(error)) throw error;
    return { signals: [...(await listSignals(session, taskId))].reverse(), keyMissing: errorInfo(error) };
  }
}

function markOf(checkpoint: CheckpointSummary, sequences: ReadonlyMap<string, number>): TimelineMark | undefined {
  const { id, sequence, createdAt, status, parentId, error } = checkpoint;
  const { kind, isOfRun, isCancelled, stage, label } = checkpointRow({ checkpoint, interrupts: [] });
  const parts = { at: createdAt, id, sequence, ...given({ stage, label, error: error?.message }) };
  if (parentId !== undefined) {
    return { kind: "branch", ...parts, ...given({ fromSequence: sequences.get(parentId) }) };
  }
  if (status !== "running") return { kind: isCancelled ? "cancelled" : status, ...parts };
  if (kind === "milestone") return { kind, ...parts };
  // Other passing checkpoints of a run are its steps.
  return isOfRun ? undefined : { kind: "auto-save", ...parts };
}

export async function answerCheckpoint(
  session: PageSession,
  { taskId, id }: Request<"checkpoint">,
): Promise<CheckpointAnswer> {
  const nowMs = Date.now();
  const stored =
    id === undefined
      ? (await readLatest(session, taskId, async () => undefined)).checkpoint
      : await exactCheckpoint(session, taskId, id);
  const described = await describeCheckpoint(session, stored);
  const { checkpoint, interrupts } = described;
  const run = await readRun(session, stored);
  const leases = new LeaseReader(session);
  const lease = await leases.current(taskId);
  const lapsed = lease === undefined && checkpoint.status === "running" ? await leases.lapsed(taskId) : undefined;
  const thread = threadOf(taskId, stored.metadata);
  const { metadata, error, sequence } = checkpoint;
  const around = async (order: "newest" | "oldest", bound: "beforeSequence" | "afterSequence") => {
    for await (const its of checkpointsOf(session, { taskId, order, [bound]: sequence, limit: 1 })) {
      return { id: its.checkpoint.id, sequence: its.checkpoint.sequence };
    }
    return undefined;
  };
  const before = await around("newest", "beforeSequence");
  const after = await around("oldest", "afterSequence");
  const runner = runnerOf({ ...given({ lease, lapsed }) }, nowMs);
  return {
    now: nowText(),
    taskId,
    name: nameOf({ taskId }),
    checkpoint: checkpointRow(described),
    ...given({
      before,
      after,
      error: error && failureInfo(error),
      namespace: thread?.namespace,
      run: run && runInfo(run),
      runner,
    }),
    ...(metadata && { metadata: typedValue(metadata) }),
    asks: (interrupts ?? []).map((question) => jsonText(question)),
    ...(await openState(session, stored)),
    damage: session.damage.records,
    commands: commandsFor(session).ofCheckpoint(checkpoint, {
      ...given({ before: before?.sequence, run: after === undefined ? run : undefined, runner }),
    }),
  };
}

async function openState(
  session: PageSession,
  checkpoint: CheckpointSummary,
): Promise<Pick<CheckpointAnswer, "state" | "keyMissing">> {
  try {
    return { state: typedValue(await readState(session, checkpoint)) };
  } catch (error) {
    if (!isKeyMissing(error)) throw error;
    return { keyMissing: errorInfo(error) };
  }
}

function runInfo(run: RunRecord): RunInfo {
  const { generation, attempt, pass, isPassOver, version: itsVersion, input, result } = run;
  return {
    generation,
    attempt,
    pass,
    isPassOver,
    ...given({ version: itsVersion }),
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

function stepParts(step: StepRecord, run: Pick<RunRecord, "attempt">): Omit<RunStep, "result" | "error"> {
  const { name, occurrence, startedAt, durationMs, attempts, runAttempt, status, waitsFor } = step;
  const from = isFromStorage(step, run) ? "storage" : "ran";
  const title = stepText({ name, occurrence, status: "completed" });
  return {
    ...{ name, occurrence, title, startedAt, runAttempt, from, status },
    ...given({ durationMs, attempts, waitsFor }),
    ...(hasTimedOut(step) && { hasTimedOut: true }),
  };
}

export async function answerState(session: PageSession, request: Request<"state">): Answer<"state"> {
  const { value, text } = partAtPath(await stateOf(session, request), request.path);
  return { value: typedPart(value, request.from), text };
}

export async function answerSearch(session: PageSession, request: Request<"search">): Answer<"search"> {
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
  return { name, ...given({ result, error }) };
}

async function stateOf(
  session: PageSession,
  { taskId, id }: { readonly taskId: string; readonly id: string },
): Promise<unknown> {
  return readState(session, await exactCheckpoint(session, taskId, id));
}

export async function answerDiff(session: PageSession, { taskId, from, to }: Request<"diff">): Answer<"diff"> {
  const newer = await exactCheckpoint(session, taskId, to);
  const older =
    from === undefined ? await checkpointBefore(session, newer) : await exactCheckpoint(session, taskId, from);
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
    commands: commandsFor(session).ofDiff(taskId, older, newer),
  };
}

/** Plans what a policy would remove. Returns the plans too, which can be applied later. */
export async function answerRetention(
  session: PageSession,
  { taskId, policy: asked }: Request<"retention">,
): Promise<{ readonly answer: Omit<RetentionAnswer, "planId">; readonly plans: PolicyPlans }> {
  const policy: Policy | undefined = asked ?? (await session.config()).retention;
  if (policy === undefined) {
    throw new CommandError(ExitCode.usage, "No policy is given, and the configuration has no retention.");
  }
  if (taskId !== undefined) {
    refuseThread(taskId, "WaymarkSaver.prune prunes it, and waymark langgraph prune removes idle ones.");
    if (!(await session.manager.has(taskId))) throw noSuchTask(session, taskId);
  }
  const plans = new PolicyPlans(session, policy, taskId);
  const total = { tasks: 0, keep: 0, remove: 0, keepBytes: 0, removeBytes: 0 };
  const tasks: RetentionAnswer["tasks"][number][] = [];
  let plannedAt = nowText();
  let checkpoints: readonly PlannedRow[] | undefined;
  for await (const plan of givingWay(plans.shown())) {
    const counts = countsOf(plan);
    total.tasks += 1;
    total.keep += counts.keep;
    total.remove += counts.remove;
    total.keepBytes += counts.keepBytes;
    total.removeBytes += counts.removeBytes;
    plannedAt = plan.plannedAt;
    if (counts.remove > 0 && tasks.length < MOST_PLANNED_TASKS) {
      tasks.push({ taskId: plan.taskId, name: nameOf(plan), ...counts });
    }
    if (taskId !== undefined) checkpoints = plannedRows(plan);
  }
  const { records, warnings } = session.damage;
  const commands: readonly Command[] = commandsFor(session).ofPolicy(policy, taskId);
  const answer = { policy, plannedAt, total, tasks, ...given({ checkpoints }), warnings, damage: records, commands };
  return { answer, plans };
}

function countsOf({ keep, remove, keepBytes, removeBytes }: RetentionPlan) {
  return { keep: keep.length, remove: remove.length, keepBytes, removeBytes };
}

function plannedRows({ keep, remove }: RetentionPlan): readonly PlannedRow[] {
  const rows = [true, false].flatMap((stays) =>
    (stays ? keep : remove).map(({ checkpoint, reasons }) => ({
      checkpoint: checkpointRow({ checkpoint, interrupts: [] }),
      stays,
      reasons,
    })),
  );
  return rows.sort((a, b) => b.checkpoint.sequence - a.checkpoint.sequence);
}

export async function answerStorage(session: PageSession): Answer<"storage"> {
  const { storage, name } = session;
  const { durable, multiProcess } = storage.capabilities;
  const found = await listQuarantine(session, MOST_QUARANTINED);
  const quarantine = found && {
    ...found,
    records: found.records.map(({ quarantinedAt: at, ...record }) => ({ ...record, ...given({ at }) })),
  };
  return {
    name,
    kind: storage.name,
    isDurable: durable,
    isMultiProcess: multiProcess,
    ...given({ bytesOnDisk: await bytesOnDisk(session), quarantine }),
    commands: commandsFor(session).ofStorage(),
  };
}

/**
 * Returns the checkpoint of exactly that id.
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
  return summaryOf(found);
}

export function noSuchTask({ name }: PageSession, taskId: string): CommandError {
  return new CommandError(
    ExitCode.notFound,
    `Task ${JSON.stringify(taskId)} has no checkpoint in ${name}. It may have been removed.`,
  );
}

function failureInfo({ name = "Error", message, code, stack }: CheckpointFailure): ErrorInfo {
  return { name, message, ...given({ code, stack }), causes: [] };
}

function messageIn(error: unknown): string | undefined {
  if (typeof error === "object" && error !== null && "message" in error) return String(error.message);
  return error === undefined ? undefined : String(error);
}

function nowText(): string {
  return new Date().toISOString();
}
