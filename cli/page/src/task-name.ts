/**
 * Returns a task's name for people. For a task of a LangGraph thread, this is the thread's id, with the namespace of a
 * subgraph: `trip-3 · mail:5f0c`.
 */
export function taskName(taskId: string): string {
  const [, thread = "", namespace = ""] = /^langgraph\/([^/]+)\/c\/([^/]*)$/.exec(taskId) ?? [];
  // Instead of a long name, the id has a hash that begins so.
  if (thread === "" || thread.startsWith("%~")) return taskId;
  const parts = namespace === "" ? [thread] : [thread, namespace];
  return parts.map((part) => part.replaceAll("%2F", "/").replaceAll("%25", "%")).join(" · ");
}
