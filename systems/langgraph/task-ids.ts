import { hash } from "node:crypto";

/** One history of checkpoints: of a thread's graph, or of a subgraph in it. */
export interface Thread {
  readonly threadId: string;
  /** Empty for the graph itself; `agent:uuid|tools:uuid` for a subgraph of a subgraph. */
  readonly namespace: string;
}

const ROOT = "langgraph/";
/** How long a name within a task id may be, in characters. Two names of this length and the rest fit. */
const LONGEST_PART = 200;

/** The prefix of all task ids of a thread. No other task id has it. */
export function threadPrefix(threadId: string): string {
  return `${ROOT}${toPart(threadId)}/`;
}

/** The prefix of a thread's checkpoint tasks. */
export function checkpointsPrefix(threadId: string): string {
  return `${threadPrefix(threadId)}c/`;
}

/** The id of the task that has the thread's checkpoints. */
export function checkpointsTask({ threadId, namespace }: Thread): string {
  return `${checkpointsPrefix(threadId)}${toPart(namespace)}`;
}

/** The prefix of a thread's task ids, taken from one of them; `undefined` for another program's task. */
export function parseThreadPrefix(taskId: string): string | undefined {
  return /^langgraph\/[^/]+\/(?=c\/)/.exec(taskId)?.[0];
}

/** The prefix of all threads' tasks. */
export const THREADS_PREFIX = ROOT;

/**
 * The prefixes that cover all threads whose ids begin with `prefix`. One prefix covers all threads with long ids,
 * because a hash doesn't tell how an id begins.
 */
export function toTaskPrefixes(prefix: string): readonly string[] {
  const begin = escaped(prefix);
  if (begin === "") return [ROOT];
  return begin.length <= LONGEST_PART ? [`${ROOT}${HASHED}`, `${ROOT}${begin}`] : [`${ROOT}${HASHED}`];
}

/**
 * The thread and namespace that a task's checkpoints belong to. If a name is too long for a task id, it is taken from
 * the checkpoints' metadata.
 */
export function parseThread(
  taskId: string,
  metadata: { readonly thread?: unknown; readonly namespace?: unknown } = {},
) {
  const [, thread, kind, namespace, ...rest] = taskId.split("/");
  if (!taskId.startsWith(ROOT) || kind !== "c" || thread === undefined || namespace === undefined || rest.length > 0) {
    return undefined;
  }
  const { thread: longThread, namespace: longNamespace } = metadata;
  return {
    threadId: typeof longThread === "string" ? longThread : unescaped(thread),
    namespace: typeof longNamespace === "string" ? longNamespace : unescaped(namespace),
  } satisfies Thread;
}

/** The names that are too long for a task id, for the metadata of the checkpoints. */
export function listLongNames({ threadId, namespace }: Thread): {
  readonly thread?: string;
  readonly namespace?: string;
} {
  return {
    ...(unescaped(toPart(threadId)) === threadId ? undefined : { thread: threadId }),
    ...(unescaped(toPart(namespace)) === namespace ? undefined : { namespace }),
  };
}

/** Escapes the name, so that it has no slash. A long name is replaced by its hash. */
function toPart(name: string): string {
  const part = escaped(name);
  return part.length <= LONGEST_PART ? part : `${HASHED}${hash("sha256", name, "base64url")}`;
}

function escaped(name: string): string {
  return name.replaceAll("%", "%25").replaceAll("/", "%2F");
}

/** The beginning of a hashed name. No escaped name begins so. */
const HASHED = "%~";

function unescaped(part: string): string {
  return part.replaceAll("%2F", "/").replaceAll("%25", "%");
}
