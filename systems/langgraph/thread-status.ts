import type { CheckpointStatus } from "../../src/contract/checkpoint.js";
import { CHANNELS, type MarkedWritesRecord, type StoredValue } from "./records.js";

/** The thread's status according to a checkpoint's writes; none if the writes don't decide the status. */
export interface WritesStatus {
  readonly status?: CheckpointStatus;
  /** The first error of a node, if one has failed. */
  readonly error?: StoredValue;
  /** The interrupts that the thread waits for. */
  readonly interrupts: readonly StoredValue[];
}

/** @param records - In the order in which they were stored. */
export function deriveStatus(records: readonly MarkedWritesRecord[]): WritesStatus {
  const openInterrupts = new Map<string, StoredValue>();
  const failed = new Map<string, StoredValue>();
  for (const { taskId, writes } of records) {
    // An answer clears the questions: the run that takes it repeats those that it doesn't answer.
    if (writes.every(({ channel }) => channel === CHANNELS.resume)) openInterrupts.clear();
    openInterrupts.delete(taskId);
    failed.delete(taskId);
    if (writes.some(({ index }) => index >= 0)) continue;
    for (const write of writes) {
      // Questions and errors never have marks.
      if ("marks" in write) continue;
      if (write.channel === CHANNELS.interrupt) openInterrupts.set(taskId, write.value);
      if (write.channel === CHANNELS.error) failed.set(taskId, write.value);
    }
  }
  const interrupts = [...openInterrupts.values()];
  const [error] = failed.values();
  if (error !== undefined) return { status: "failed", error, interrupts };
  return openInterrupts.size > 0 ? { status: "paused", interrupts } : { interrupts };
}

/** The questions in the value of an interrupt: LangGraph stores a list of `{ id, value }`. */
export function questionsIn(interrupts: unknown): readonly unknown[] {
  const list: readonly unknown[] = Array.isArray(interrupts) ? interrupts : [interrupts];
  return list.map((one) => (typeof one === "object" && one !== null && "value" in one ? one.value : one));
}
