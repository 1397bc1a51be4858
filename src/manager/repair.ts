import { checkKeys, isCorrupt, type StorageAdapter } from "../contract/adapter.js";
import { type CheckpointSummary, damageIn, summaryOf } from "../contract/checkpoint.js";
import { CheckpointError, UnsupportedOperationError } from "../contract/errors.js";
import type { RepairStep } from "../contract/findings.js";
import { checkFunction, checkSignal } from "./arguments.js";

/** How `repair` goes about it. */
export interface RepairOptions {
  /** What killed writes have left behind is removed once it is older than this. Default one hour. */
  readonly leftoversOlderThanMs?: number | undefined;
  /** Changes nothing, and tells what a repair would do now. Default false. */
  readonly dryRun?: boolean | undefined;
  /** Ends it between two steps, with the signal's reason as the error; another repair goes on from there. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each step. */
  readonly onProgress?: ((step: RepairStep) => void) | undefined;
}

/** What `repair` has done, or, of a dry run, would do. */
export interface RepairResult {
  readonly dryRun: boolean;
  /** One for each finding. */
  readonly steps: readonly RepairStep[];
  /** The tasks that have lost a checkpoint, and the newest intact one that they have now. */
  readonly tasks: readonly RepairedTask[];
}

export interface RepairedTask {
  readonly taskId: string;
  /** `undefined` where none is left. */
  readonly newest: CheckpointSummary | undefined;
}

const HOUR_MS = 60 * 60 * 1000;

/** @throws {UnsupportedOperationError} The adapter offers no repair. */
export async function repairStorage(storage: StorageAdapter, options: RepairOptions): Promise<RepairResult> {
  const { leftoversOlderThanMs = HOUR_MS, dryRun = false, signal, onProgress } = checked(options);
  if (storage.maintenance === undefined) {
    throw new UnsupportedOperationError(
      `The ${storage.name} adapter offers no repair. Nothing was changed; verify() tells what is damaged, and remove() takes a checkpoint away.`,
    );
  }
  const steps: RepairStep[] = [];
  signal?.throwIfAborted();
  for await (const step of storage.maintenance.repair({ leftoversOlderThanMs, dryRun })) {
    steps.push(step);
    onProgress?.(step);
    signal?.throwIfAborted();
  }
  const affected = new Set<string>();
  for (const { action, finding } of steps) {
    if (action === "quarantined" && finding.taskId !== undefined) affected.add(finding.taskId);
  }
  const tasks: RepairedTask[] = [];
  for (const taskId of affected) {
    const task = await newestOf(storage, taskId);
    if (task) tasks.push(task);
  }
  return { dryRun, steps, tasks };
}

/** By seal and digest: it needs neither a key nor a schema. `undefined` where a finding that was left is in the way. */
async function newestOf(storage: StorageAdapter, taskId: string): Promise<RepairedTask | undefined> {
  try {
    for await (const record of storage.read({ taskId, order: "newest" })) {
      if (!isCorrupt(record) && damageIn(record) === undefined) return { taskId, newest: summaryOf(record) };
    }
  } catch (error) {
    if (error instanceof CheckpointError) return undefined;
    throw error;
  }
  return { taskId, newest: undefined };
}

/** @throws {TypeError | RangeError} An option is misspelled, of a wrong kind, or out of range. */
function checked(options: RepairOptions): RepairOptions {
  const known = ["leftoversOlderThanMs", "dryRun", "signal", "onProgress"] satisfies (keyof RepairOptions)[];
  checkKeys("RepairOptions", options, known);
  const { leftoversOlderThanMs, dryRun, onProgress, signal } = options;
  if (leftoversOlderThanMs !== undefined && !(typeof leftoversOlderThanMs === "number" && leftoversOlderThanMs >= 0)) {
    throw new RangeError(
      `leftoversOlderThanMs must be a number of milliseconds from 0; it is ${String(leftoversOlderThanMs)}.`,
    );
  }
  if (dryRun !== undefined && typeof dryRun !== "boolean")
    throw new TypeError("RepairOptions.dryRun must be true or false.");
  checkFunction("RepairOptions.onProgress", onProgress);
  checkSignal("RepairOptions.signal", signal);
  return options;
}
