import type { CheckpointSummary } from "waymark";
import { deriveStatus, type MarkedWritesRecord, questionsIn, readableValue } from "waymark/langgraph/records";
import { jsonText } from "../printable.js";

/** The status, error and questions of a thread, derived from a checkpoint's writes. The status may be missing. */
export interface ThreadStatus extends Partial<Pick<CheckpointSummary, "status" | "error">> {
  /** The questions that the thread waits for. */
  readonly interrupts: readonly unknown[];
}

/** @param records - In the order in which they were stored. */
export function deriveThreadStatus(records: readonly MarkedWritesRecord[]): ThreadStatus {
  const { status, error, interrupts: values } = deriveStatus(records);
  const interrupts = values.flatMap((value) => questionsIn(readableValue(value)));
  return {
    ...(status && { status }),
    ...(error && { error: failureIn(readableValue(error)) }),
    interrupts,
  };
}

/** `"Send it?" and "To whom?"`; `undefined` if there are no questions. */
export function questionsText(interrupts: readonly unknown[] = []): string | undefined {
  return interrupts.length === 0 ? undefined : interrupts.map((question) => jsonText(question)).join(" and ");
}

/** Returns the error in a write. LangGraph stores an error as `{ name, message }`. */
function failureIn(content: unknown): NonNullable<ThreadStatus["error"]> {
  const parts = typeof content === "object" && content !== null ? content : {};
  const name = "name" in parts && typeof parts.name === "string" ? { name: parts.name } : {};
  return { ...name, message: "message" in parts ? String(parts.message) : "a node has failed" };
}
