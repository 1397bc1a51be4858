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

/** What the ids of a thread's tasks begin with, and no others. */
export function threadPrefix(threadId: string): string {
  return `${ROOT}${partOf(threadId)}/`;
}

/** What the ids of the thread's tasks of checkpoints begin with. */
export function checkpointsPrefix(threadId: string): string {
  return `${threadPrefix(threadId)}c/`;
}

/** The task of a thread's checkpoints. */
export function checkpointsTask({ threadId, namespace }: Thread): string {
  return `${checkpointsPrefix(threadId)}${partOf(namespace)}`;
}

/** What the ids of a thread's tasks of writes begin with. */
export function writesPrefix({ threadId, namespace }: Thread): string {
  return `${threadPrefix(threadId)}w/${partOf(namespace)}/`;
}

/** The task of one checkpoint's pending writes. */
export function writesTask(thread: Thread, checkpointId: string): string {
  return `${writesPrefix(thread)}${partOf(checkpointId)}`;
}

/** What the ids of the tasks of a thread begin with, from the id of one; `undefined` for another program's task. */
export function threadPrefixOf(taskId: string): string | undefined {
  return /^langgraph\/[^/]+\/(?=[cw]\/)/.exec(taskId)?.[0];
}

/** Every task of threads begins with it. */
export const THREADS_PREFIX = ROOT;

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

/** What a task's id doesn't tell of its thread, for the metadata of its checkpoints. */
export function longNamesOf({ threadId, namespace }: Thread): {
  readonly thread?: string;
  readonly namespace?: string;
} {
  return {
    ...(nameOf(partOf(threadId)) === threadId ? undefined : { thread: threadId }),
    ...(nameOf(partOf(namespace)) === namespace ? undefined : { namespace }),
  };
}

/** Without a slash. A long name is its hash: no other name's part begins with `%~`. */
function partOf(name: string): string {
  const part = name.replaceAll("%", "%25").replaceAll("/", "%2F");
  return part.length <= LONGEST_PART ? part : `%~${hash("sha256", name, "base64url")}`;
}

function nameOf(part: string): string {
  return part.replaceAll("%2F", "/").replaceAll("%25", "%");
}
