import type { StorageAdapter } from "../contract/adapter.js";
import { checkBoolean, checkFunction, checkSignal } from "../contract/arguments.js";
import { type CheckpointSummary, findDamage, toSummary } from "../contract/checkpoint.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { CheckpointError, UnsupportedOperationError } from "../contract/errors.js";
import type { RepairStep } from "../contract/findings.js";
import { anySignal } from "./abort-signals.js";
import { checkOptions } from "./check-options.js";

/** The options of `repair`. */
export interface RepairOptions {
  /** Removes leftovers of killed writes that are older than this. Default one hour. */
  readonly leftoversOlderThanMs?: number | undefined;
  /** Changes nothing and reports what a repair would do. Default false. */
  readonly dryRun?: boolean | undefined;
  /** Stops between two checkpoints; `repair` then throws the signal's reason. Another repair continues from there. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called after each step, with the result so far. All calls pass the same `steps`, which grow, and no `tasks` yet.
   */
  readonly onProgress?: ((soFar: RepairResult) => void) | undefined;
}

/** The result of `repair`. After a dry run, it shows what a repair would do. */
export interface RepairResult {
  readonly dryRun: boolean;
  /** One step for each finding. */
  readonly steps: readonly RepairStep[];
  /**
   * The tasks from which a damaged checkpoint was moved away. `newest` is the newest intact checkpoint; `undefined` if
   * none is left.
   */
  readonly tasks: readonly { readonly taskId: string; readonly newest: CheckpointSummary | undefined }[];
}

const HOUR_MS = 60 * 60 * 1000;

/**
 * @internal Moves damaged data to quarantine, as far as the adapter can.
 *
 * @param closing - Aborted when the manager closes.
 * @throws {UnsupportedOperationError} The adapter offers no repair.
 */
export async function repairStorage(
  storage: StorageAdapter,
  options: RepairOptions,
  closing: AbortSignal,
): Promise<RepairResult> {
  checkOptions("RepairOptions", options, {
    leftoversOlderThanMs: checkDuration,
    dryRun: checkBoolean,
    signal: checkSignal,
    onProgress: checkFunction,
  });
  const { leftoversOlderThanMs = HOUR_MS, dryRun = false, onProgress, signal } = options;
  const stop = anySignal(closing, signal);
  if (storage.maintenance === undefined) {
    throw new UnsupportedOperationError(
      `The ${storage.name} adapter has no repair. Nothing was changed; verify() finds what is damaged, and remove() removes a checkpoint.`,
    );
  }
  const steps: RepairStep[] = [];
  stop.throwIfAborted();
  for await (const step of storage.maintenance.repair({ leftoversOlderThanMs, dryRun, signal: stop })) {
    steps.push(step);
    onProgress?.({ dryRun, steps, tasks: [] });
    stop.throwIfAborted();
  }
  stop.throwIfAborted();
  const quarantined = steps.filter(({ action }) => action === "quarantined");
  const tasks: RepairResult["tasks"][number][] = [];
  for (const taskId of new Set(quarantined.map(({ finding }) => finding.taskId))) {
    stop.throwIfAborted();
    const task = taskId === undefined ? undefined : await findNewest(storage, taskId);
    if (task) tasks.push(task);
  }
  return { dryRun, steps, tasks };
}

/**
 * Finds a task's newest intact checkpoint without key or schema. Returns `undefined` if damage that was left prevents
 * reading the task.
 */
async function findNewest(storage: StorageAdapter, taskId: string): Promise<RepairResult["tasks"][number] | undefined> {
  try {
    for await (const record of storage.read({ taskId, order: "newest" })) {
      if (!isCorrupt(record) && findDamage(record) === undefined) return { taskId, newest: toSummary(record) };
    }
  } catch (error) {
    if (error instanceof CheckpointError) return undefined;
    throw error;
  }
  return { taskId, newest: undefined };
}

function checkDuration(what: string, ms: number): void {
  if (typeof ms === "number" && ms >= 0) return;
  throw new RangeError(`${what} must be a number of milliseconds from 0; it is ${String(ms)}.`);
}
