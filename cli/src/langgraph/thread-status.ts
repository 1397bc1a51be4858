import type { CheckpointSummary } from "waymark";
import { CHANNELS, type MarkedWritesRecord, readableValue } from "waymark/langgraph/records";
import { jsonText } from "../printable.js";

/** The status, error and questions that a checkpoint's writes give its thread. The writes may give no status. */
export interface ThreadStatus extends Partial<Pick<CheckpointSummary, "status" | "error">> {
  /** The questions that the thread waits for. */
  readonly interrupts: readonly unknown[];
}

/** @param records - In the order in which they were stored. */
export function deriveThreadStatus(records: readonly MarkedWritesRecord[]): ThreadStatus {
  const asked = new Map<string, readonly unknown[]>();
  const failed = new Map<string, NonNullable<ThreadStatus["error"]>>();
  for (const { taskId, writes } of records) {
    // An answer clears the questions: the run that takes it repeats those that it doesn't answer.
    if (writes.every(({ channel }) => channel === CHANNELS.resume)) asked.clear();
    asked.delete(taskId);
    failed.delete(taskId);
    if (writes.some(({ index }) => index >= 0)) continue;
    for (const write of writes) {
      // Questions and errors never have marks.
      if ("marks" in write) continue;
      const { channel, value } = write;
      const content = readableValue(value);
      if (channel === CHANNELS.interrupt)
        asked.set(taskId, Array.isArray(content) ? content.map(questionIn) : [content]);
      if (channel === CHANNELS.error) failed.set(taskId, failureIn(content));
    }
  }
  const interrupts = [...asked.values()].flat();
  const [error] = failed.values();
  if (error !== undefined) return { status: "failed", error, interrupts };
  return asked.size > 0 ? { status: "paused", interrupts } : { interrupts };
}

/** `"Send it?" and "To whom?"`; `undefined` if there are no questions. */
export function questionsText(interrupts: readonly unknown[] = []): string | undefined {
  return interrupts.length === 0 ? undefined : interrupts.map((question) => jsonText(question)).join(" and ");
}

/** The question in an interrupt. LangGraph stores an interrupt as `{ id, value }`. */
function questionIn(interrupt: unknown): unknown {
  return typeof interrupt === "object" && interrupt !== null && "value" in interrupt ? interrupt.value : interrupt;
}

/** The error in a write. LangGraph stores an error as `{ name, message }`. */
function failureIn(content: unknown): NonNullable<ThreadStatus["error"]> {
  const parts = typeof content === "object" && content !== null ? content : {};
  const name = "name" in parts && typeof parts.name === "string" ? { name: parts.name } : {};
  return { ...name, message: "message" in parts ? String(parts.message) : "a node has failed" };
}
