import { setTimeout as delay } from "node:timers/promises";
import type { CheckpointSummary } from "waymark";
import { hasCheckpoint } from "waymark/kit";
import { checkpointsTask, parseThread, parseThreadPrefix } from "waymark/langgraph/records";
import { type FoundTask, findTask } from "../langgraph/find-tasks.js";
import { LeaseReader } from "../leases.js";
import { readCheckpoints } from "../queries/checkpoints.js";
import { type QueueCount, queueIn } from "../queries/fleet.js";
import { verifyStorage } from "../queries/verify.js";
import type { CheckpointRow } from "./api-parts.js";
import type { VerifyMessage } from "./api-storage.js";
import type { QueueInfo, TaskMessage, TaskRow, TasksMessage, WatchTasksRequest } from "./api-tasks.js";
import { errorInfo } from "./error-info.js";
import { findingInfo } from "./findings-info.js";
import type { PageSession } from "./page-session.js";
import { checkpointRow } from "./rows.js";
import { findTaskRow } from "./task-answers.js";
import { rowMatches } from "./task-filter.js";

/**
 * How many of the last saved tasks each look reads. If more tasks save in between, the others are noticed at their next
 * save.
 */
const RECENT = 50;
const SHOWN_CHECKPOINTS = 50;
const MOST_FINDINGS = 1_000;
/** The pause until the queue is counted again is this many times as long as the count took. */
const REST = 20;
/** A renewed lease expires at least this much later. Smaller differences come from reading the clock. */
const RENEWED_MS = 500;

/** How a watch looks at the storage. */
export interface Watching {
  /** Creates the session of one look. */
  readonly open: () => PageSession;
  readonly everyMs: number;
  readonly signal: AbortSignal;
}

/**
 * Yields the changes of tasks until the signal aborts. The first message with changes has all visible and recent tasks.
 * A failure is reported once, and the storage is read again until that succeeds.
 */
export async function* watchTasks(
  request: WatchTasksRequest,
  watching: Watching,
): AsyncGenerator<TasksMessage, void, void> {
  let known = new Map<string, Seen>();
  let queue: QueueCount | undefined;
  let countAgainAtMs = 0;
  yield* looks(watching, async (session, isFirst) => {
    if (isFirst) known = new Map();
    const countBefore = JSON.stringify(queue);
    const beganMs = performance.now();
    if (beganMs >= countAgainAtMs) {
      queue = await queueIn(session, request.prefix);
      const endedMs = performance.now();
      countAgainAtMs = endedMs + REST * (endedMs - beganMs);
    }
    const isQueueNew = isFirst || JSON.stringify(queue) !== countBefore;
    const found = new Map<string, Seen>();
    const tasks: TaskRow[] = [];
    const gone: string[] = [];
    const leases = new LeaseReader(session);
    for (const [taskId, newest] of await readNewest(session, request)) {
      const lease = newest === undefined ? undefined : await leases.current(taskId);
      const expiresAtMs = lease && Date.now() + lease.remainingMs;
      const now: Seen = { mark: JSON.stringify([newest, lease?.token]), expiresAtMs };
      found.set(taskId, now);
      const before = known.get(taskId);
      if (before !== undefined && isSame(before, now)) continue;
      const row = newest === undefined ? undefined : await findTaskRow(session, taskId);
      if (row !== undefined && isAskedFor(row, request)) tasks.push(row);
      else if (row === undefined || request.visible.includes(taskId)) gone.push(taskId);
    }
    known = found;
    if (tasks.length + gone.length === 0 && !(isQueueNew && queue !== undefined)) return undefined;
    return { kind: "change", now: nowText(), ...(queue && { queue: queueInfo(queue) }), tasks, gone };
  });
}

/** Yields the changes of one task until the signal aborts. */
export async function* watchTask(taskId: string, watching: Watching): AsyncGenerator<TaskMessage, void, void> {
  let known: { readonly mark: string; readonly expiresAtMs: number | undefined } | undefined;
  yield* looks(watching, async (session, isFirst) => {
    if (isFirst) known = undefined;
    const lease = await new LeaseReader(session).current(taskId);
    const checkpoints: CheckpointRow[] = [];
    for await (const entry of readCheckpoints(session, { taskId, order: "newest", limit: SHOWN_CHECKPOINTS })) {
      checkpoints.push(checkpointRow(entry));
    }
    const { records } = session.damage;
    const now: Seen = {
      mark: JSON.stringify([
        checkpoints,
        lease?.token,
        records,
        (await findTask(session.storage, taskId))?.last?.sequence,
      ]),
      expiresAtMs: lease && Date.now() + lease.remainingMs,
    };
    if (known !== undefined && isSame(known, now)) return undefined;
    known = now;
    const task = await findTaskRow(session, taskId);
    if (task === undefined) return { kind: "gone", now: nowText() };
    return { kind: "change", now: nowText(), task, checkpoints };
  });
}

/** Yields the progress of a verification, and its findings. */
export async function* verifying(
  session: PageSession,
  quick: boolean,
  { everyMs, signal }: Omit<Watching, "open">,
): AsyncGenerator<VerifyMessage, void, void> {
  let progress: VerifyMessage = {
    kind: "progress",
    tasks: 0,
    checkpoints: 0,
    records: 0,
    bytes: 0,
    findings: 0,
  };
  const ended: Promise<VerifyMessage> = verifyStorage(session, {
    quick,
    signal,
    onProgress(soFar) {
      progress = { kind: "progress", ...soFar, findings: soFar.findings.length };
    },
  }).then(
    ({ findings, ...counts }) => ({
      kind: "done",
      ...counts,
      findings: findings.slice(0, MOST_FINDINGS).map(findingInfo),
      total: findings.length,
    }),
    (error: unknown) => ({ kind: "failed", error: errorInfo(error) }),
  );
  for (;;) {
    const pause = new AbortController();
    // An abort only ends the pause.
    const waited = delay(everyMs, undefined, { signal: pause.signal }).catch(() => undefined);
    const message = await Promise.race([ended, waited]);
    pause.abort();
    if (signal.aborted) return;
    yield message ?? progress;
    if (message !== undefined) return;
  }
}

/** A task as a watch remembers it: its content as text, and its lease's end. */
interface Seen {
  readonly mark: string;
  readonly expiresAtMs: number | undefined;
}

type LookMessage = { readonly kind: "open"; readonly now: string } | Extract<TasksMessage, { readonly kind: "failed" }>;

/** @param look - Reads the storage once. If `isFirst`, it reports everything again. */
async function* looks<Message>(
  { open, everyMs, signal }: Watching,
  look: (session: PageSession, isFirst: boolean) => Promise<Message | undefined>,
): AsyncGenerator<Message | LookMessage, void, void> {
  let failed: string | undefined;
  for (let isFirst = true; !signal.aborted; ) {
    try {
      const message = await look(open(), isFirst);
      if (isFirst) yield { kind: "open", now: nowText() };
      if (message !== undefined) yield message;
      [isFirst, failed] = [false, undefined];
    } catch (error) {
      const info = errorInfo(error);
      if (info.message !== failed) yield { kind: "failed", error: info };
      [isFirst, failed] = [true, info.message];
    }
    // An abort only ends the pause.
    await delay(everyMs, undefined, { signal }).catch(() => undefined);
  }
}

/** Returns what to compare for each visible or recent task; `undefined` for a visible task without a checkpoint. */
async function readNewest(
  session: PageSession,
  { prefix, visible }: WatchTasksRequest,
): Promise<ReadonlyMap<string, readonly object[] | undefined>> {
  const { storage } = session;
  const found = new Map<string, readonly object[] | undefined>();
  for await (const task of storage.tasks({ order: "recent", limit: RECENT })) {
    if (!hasCheckpoint(task)) continue;
    const shown = shownTask(task.taskId, task.newest.metadata);
    // A thread has many tasks: each may be the one that changed.
    if (nameBeginsWith(shown, prefix)) found.set(shown, [...(found.get(shown) ?? []), seenIn(task)]);
  }
  for (const taskId of visible) {
    if (found.has(taskId)) continue;
    const task = await findTask(storage, taskId);
    found.set(taskId, task && [seenIn(task)]);
  }
  return found;
}

/** Returns values that change with each of the task's records. */
function seenIn({ newest, last }: FoundTask): object {
  return { newest, last: last?.sequence };
}

/** Returns the task under which the page shows a task. For a task of a thread, this is the graph's task. */
function shownTask(taskId: string, metadata: CheckpointSummary["metadata"]): string {
  const thread = parseThreadPrefix(taskId) === undefined ? undefined : parseThread(taskId, metadata);
  return thread === undefined ? taskId : checkpointsTask({ threadId: thread.threadId, namespace: "" });
}

function nameBeginsWith(taskId: string, prefix = ""): boolean {
  return (parseThread(taskId)?.threadId ?? taskId).startsWith(prefix);
}

function isAskedFor(row: TaskRow, request: WatchTasksRequest): boolean {
  const { status, newest, name } = row;
  return (
    name.startsWith(request.prefix ?? "") &&
    request.status?.some((one) => one === status) !== false &&
    (request.stage === undefined || newest?.stage === request.stage) &&
    rowMatches(row, request, Date.now())
  );
}

function isSame(before: Seen, now: Seen): boolean {
  const [old, current] = [before.expiresAtMs, now.expiresAtMs];
  if (before.mark !== now.mark || (old === undefined) !== (current === undefined)) return false;
  return old === undefined || current === undefined || Math.abs(old - current) < RENEWED_MS;
}

function queueInfo({ tasks, oldestDueAt }: QueueCount): QueueInfo {
  return { tasks, ...(oldestDueAt !== undefined && { oldestDueAt }) };
}

function nowText(): string {
  return new Date().toISOString();
}
