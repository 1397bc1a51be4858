import { describe, expect, it } from "vitest";
import type { TaskSummary } from "waymark";
import { runMetadata } from "../../../src/contract/run-note.js";
import {
  checkTaskStatus,
  findTaskStatus,
  listCheckpointStatuses,
  type TaskFacts,
} from "../../../src/contract/task-status.js";
import { NEVER, type RunWaits } from "../../../src/contract/transient.js";

const SAVED = "2026-11-30T10:00:00.000Z";
const NOW = "2026-11-30T10:00:05.000Z";
const LATER = "2026-11-30T11:00:00.000Z";

type Newest = TaskFacts["newest"];

const plain = (status: Newest["status"], more: Partial<Newest> = {}): Newest => ({ status, createdAt: SAVED, ...more });

/** Makes the checkpoint of a run. @param attempt - 0 if no attempt has begun. */
function ofRun(
  status: Newest["status"],
  attempt: number,
  more: Partial<Newest> = {},
  waits?: RunWaits,
  isChild = false,
) {
  const metadata = runMetadata(
    { generation: "g", attempt, turn: 1 },
    { waits, parent: isChild ? { taskId: "parent", turn: 1 } : undefined },
  );
  return plain(status, { metadata, ...(!isChild && { dueAt: waits?.dueAt ?? SAVED }), ...more });
}

const record = (
  kind: "mark" | "step" | "chunk" | "event" | "run",
  name = "approve",
): NonNullable<TaskFacts["last"]> => ({
  ...{ taskId: "t", sequence: 9, kind, name, createdAt: NOW, sizeBytes: 2, seal: "" },
  payload: { encoding: "json", sha256: "" },
});

const waits = (dueAt: string, ...waitsFor: string[]): RunWaits => ({ dueAt, waitsFor });
const failure = { message: "no room" };
const cancellation = { message: "too late", code: "RUN_CANCELLED" };

describe("a task's status", () => {
  it.each<[string, TaskFacts, free: TaskSummary["status"], held: TaskSummary["status"]]>([
    ["a save", { newest: plain("running") }, "interrupted", "running"],
    ["a save that says paused", { newest: plain("paused") }, "paused", "running"],
    ["a completed task", { newest: plain("completed") }, "completed", "completed"],
    ["a failed task", { newest: plain("failed", { error: failure }) }, "failed", "running"],
    ["a cancelled task", { newest: plain("failed", { error: cancellation }) }, "cancelled", "cancelled"],
    ["an enqueued run", { newest: ofRun("paused", 0) }, "queued", "running"],
    ["an enqueued run for later", { newest: ofRun("paused", 0, {}, waits(LATER)) }, "scheduled", "running"],
    ["a fork that nobody has begun", { newest: ofRun("running", 0) }, "queued", "running"],
    [
      "an enqueued run whose first worker has died",
      { newest: ofRun("paused", 0), last: { ...record("mark"), recordKey: '["g",1,1,1]' } },
      "interrupted",
      "running",
    ],
    [
      "a fork with the start of a step",
      { newest: ofRun("paused", 0), last: { ...record("mark"), recordKey: '["g",1,0,1]' } },
      "queued",
      "running",
    ],
    ["a run", { newest: ofRun("running", 1) }, "interrupted", "running"],
    ["a run in a step that writes", { newest: ofRun("paused", 1), last: record("chunk") }, "interrupted", "running"],
    ["a run in a step", { newest: ofRun("running", 1), last: record("mark") }, "interrupted", "running"],
    ["a run that a signal paused", { newest: ofRun("paused", 1) }, "paused", "running"],
    ["one that was put back", { newest: ofRun("paused", 1, { error: failure }) }, "queued", "running"],
    [
      "one that was put back and recorded a step",
      { newest: ofRun("paused", 1, { error: failure }), last: record("step") },
      "interrupted",
      "running",
    ],
    [
      "a run that waits for an event",
      { newest: ofRun("paused", 1, {}, waits(NEVER, "approve")) },
      "waiting",
      "running",
    ],
    ["a run that sleeps", { newest: ofRun("paused", 1, {}, waits(LATER)) }, "waiting", "running"],
    ["a run whose sleep is over", { newest: ofRun("paused", 1, {}, waits(NOW)) }, "queued", "running"],
    [
      "a run whose event came",
      { newest: ofRun("paused", 1, {}, waits(NEVER, "approve")), last: record("event"), dueAt: NOW },
      "queued",
      "running",
    ],
    [
      "a run to which another event came",
      { newest: ofRun("paused", 1, {}, waits(NEVER, "approve")), last: record("event", "note") },
      "waiting",
      "running",
    ],
    [
      "a run that waited and was resumed",
      { newest: ofRun("paused", 1, {}, waits(NEVER, "approve")), last: record("mark", "pay") },
      "interrupted",
      "running",
    ],
    [
      "a run that a signal paused while it waited for an event",
      { newest: ofRun("paused", 1, {}, waits(SAVED, "approve")) },
      "paused",
      "running",
    ],
    [
      "a run that a signal paused while it slept",
      { newest: ofRun("paused", 1, {}, waits(SAVED)) },
      "paused",
      "running",
    ],
    ["a child run that waits", { newest: ofRun("paused", 1, {}, waits(NEVER, "approve"), true) }, "waiting", "running"],
    [
      "a child run whose event came",
      { newest: ofRun("paused", 1, {}, waits(NEVER, "approve"), true), last: record("event") },
      "queued",
      "running",
    ],
    ["a child run that is paused", { newest: ofRun("paused", 1, {}, undefined, true) }, "paused", "running"],
    [
      "a child run that failed",
      { newest: ofRun("failed", 1, { error: failure }, undefined, true) },
      "failed",
      "running",
    ],
  ])("%s", (_what, task, free, held) => {
    const nowMs = Date.parse(NOW);
    expect(findTaskStatus(task, false, nowMs)).toBe(free);
    expect(findTaskStatus(task, true, nowMs)).toBe(held);
    for (const status of [free, held]) expect(listCheckpointStatuses([status])).toContain(task.newest.status);
  });

  it("is one of nine words", () => {
    expect(() => checkTaskStatus("waiting")).not.toThrow();
    expect(() => checkTaskStatus("waits" as never)).toThrow(/one of queued, scheduled, running, .*, not "waits"/);
    expect(() => checkTaskStatus("toString" as never)).toThrow(TypeError);
  });
});
