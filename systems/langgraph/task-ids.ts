import { hash } from "node:crypto";

/** One history of checkpoints: a thread's, or that of a subgraph in it. */
export interface Thread {
  readonly threadId: string;
  /** Empty for the graph itself; `agent:uuid|tools:uuid` for a subgraph in a subgraph. */
  readonly namespace: string;
}

const ROOT = "langgraph/";
/** Two of these and the rest fit into a task's id. */
const LONGEST_PART = 200;

/** The beginning of the ids of a thread's tasks. No other ids begin with it. */
export function threadPrefix(threadId: string): string {
  return `${ROOT}${partOf(threadId)}/`;
}

/** The beginning of the ids of the thread's tasks of checkpoints. */
export function checkpointsPrefix(threadId: string): string {
  return `${threadPrefix(threadId)}c/`;
}

/** The task of a thread's checkpoints. */
export function checkpointsTask({ threadId, namespace }: Thread): string {
  return `${checkpointsPrefix(threadId)}${partOf(namespace)}`;
}

/** The beginning of the ids of a thread's tasks of writes. */
export function writesPrefix({ threadId, namespace }: Thread): string {
  return `${threadPrefix(threadId)}w/${partOf(namespace)}/`;
}

/** The task of one checkpoint's pending writes. */
export function writesTask(thread: Thread, checkpointId: string): string {
  return `${writesPrefix(thread)}${partOf(checkpointId)}`;
}

/** The beginning of the ids of a thread's tasks, from the id of one; `undefined` for another program's task. */
export function threadPrefixOf(taskId: string): string | undefined {
  return /^langgraph\/[^/]+\/(?=[cw]\/)/.exec(taskId)?.[0];
}

/** Every task of threads begins with it. */
export const THREADS_PREFIX = ROOT;

/**
 * The ids of all tasks of threads whose ids begin with `prefix` begin with one of these. So do those of all threads with
 * long names: a hash doesn't tell how a name begins.
 */
export function taskPrefixesOf(prefix: string): readonly string[] {
  const begin = escaped(prefix);
  if (begin === "") return [ROOT];
  return begin.length <= LONGEST_PART ? [`${ROOT}${HASHED}`, `${ROOT}${begin}`] : [`${ROOT}${HASHED}`];
}

/** Whose checkpoints a task has. A name too long for a task's id is in its checkpoints' metadata. */
export function threadOf(taskId: string, metadata: { readonly thread?: unknown; readonly namespace?: unknown } = {}) {
  const [, thread, kind, namespace, ...rest] = taskId.split("/");
  if (!taskId.startsWith(ROOT) || kind !== "c" || thread === undefined || namespace === undefined || rest.length > 0) {
    return undefined;
  }
  const { thread: longThread, namespace: longNamespace } = metadata;
  return {
    threadId: typeof longThread === "string" ? longThread : nameOf(thread),
    namespace: typeof longNamespace === "string" ? longNamespace : nameOf(namespace),
  } satisfies Thread;
}

/** The thread's names that a task's id doesn't tell, for the metadata of its checkpoints. */
export function longNamesOf({ threadId, namespace }: Thread): {
  readonly thread?: string;
  readonly namespace?: string;
} {
  return {
    ...(nameOf(partOf(threadId)) === threadId ? undefined : { thread: threadId }),
    ...(nameOf(partOf(namespace)) === namespace ? undefined : { namespace }),
  };
}

/** Without a slash. A long name is its hash. */
function partOf(name: string): string {
  const part = escaped(name);
  return part.length <= LONGEST_PART ? part : `${HASHED}${hash("sha256", name, "base64url")}`;
}

function escaped(name: string): string {
  return name.replaceAll("%", "%25").replaceAll("/", "%2F");
}

/** No escaped name begins so. */
const HASHED = "%~";

function nameOf(part: string): string {
  return part.replaceAll("%2F", "/").replaceAll("%25", "%");
}
