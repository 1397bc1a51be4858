import { checkInteger, checkKeys, checkText, listKeys } from "../../src/contract/arguments.js";
import type { Checkpoint } from "../../src/contract/checkpoint.js";
import { CheckpointNotFoundError, ClosedError } from "../../src/contract/errors.js";
import type { Logger } from "../../src/manager/logger.js";
import { taskOfCheckpointId } from "./checkpoint-id.js";
import type { CheckpointData, CheckpointExecutionState } from "./schema.js";
import { type PrpCheckpoints, SessionCheckpoints } from "./storage.js";

export interface CheckpointConfig {
  /**
   * How many checkpoints a task keeps, from 1. Default 5. While an executor runs a command, there is one more, which
   * holds the command's progress.
   */
  maxCheckpoints: number;
  /** Whether checkpoints are saved. Default true. */
  enabled: boolean;
  /** Whether each save removes the oldest checkpoints beyond `maxCheckpoints`. Default true. */
  autoCleanup: boolean;
}

/**
 * Returns the session that an executor writes to; `undefined` if checkpoints are not enabled. Not a method, so that
 * users of the manager don't see it.
 */
export let enabledCheckpoints: (manager: PrpCheckpointManager) => SessionCheckpoints | undefined;

const DEFAULTS: CheckpointConfig = { maxCheckpoints: 5, enabled: true, autoCleanup: true };

/**
 * Stores the checkpoints of a session's PRPs, one file per task: `{sessionPath}/artifacts/{taskId}/checkpoints.json`.
 * Every save is atomic and survives a killed process and a power cut. It also reads and extends files of the spec's own
 * program.
 *
 * @example
 * ```ts
 * import { PrpCheckpointManager } from "waymark/prp";
 *
 * const manager = new PrpCheckpointManager("plan/001_session");
 * const id = await manager.saveCheckpoint("P1.M1.T1.S1", "Before the coder", {
 *   prpPath: "prps/P1.M1.T1.S1.md",
 *   stage: "pre-execution",
 *   validationResults: [],
 *   timestamp: new Date(),
 * });
 * const { state } = await manager.restoreCheckpoint(id);
 * await manager.close();
 * ```
 */
export class PrpCheckpointManager {
  readonly sessionPath: string;
  readonly #config: CheckpointConfig;
  readonly #session: SessionCheckpoints;
  readonly #checkpoints: PrpCheckpoints;
  #isClosed = false;

  /**
   * @param sessionPath - The session's folder. The first save creates it.
   * @param config - Overrides the defaults: 5 checkpoints, enabled, automatic cleanup.
   * @param options.logger - Default: warnings and errors become process warnings.
   * @throws {TypeError | RangeError} A part is misspelled or out of range; the message names it.
   */
  constructor(
    sessionPath: string,
    config: Partial<CheckpointConfig> = {},
    options: { readonly logger?: Logger | undefined } = {},
  ) {
    checkText("sessionPath", sessionPath, 1);
    checkKeys("PrpCheckpointManager's options", options, listKeys<typeof options>({ logger: true }));
    this.sessionPath = sessionPath;
    this.#config = resolveConfig(config);
    const { autoCleanup, maxCheckpoints } = this.#config;
    this.#session = new SessionCheckpoints({
      sessionPath,
      keepLast: autoCleanup ? maxCheckpoints : undefined,
      logger: options.logger,
    });
    this.#checkpoints = this.#session.checkpoints;
  }

  /**
   * Saves a checkpoint. Resolves once it is on disk.
   *
   * @param taskId - Any non-empty string of at most 512 UTF-16 units.
   * @param error - The error that the checkpoint is about, if any. Its message, code and stack are kept.
   * @returns The checkpoint's id, `{taskId}_{timestamp}_{stage}_{unique end}`; `''` if checkpoints are not enabled.
   * @throws {TypeError | RangeError} The task's name or the label is no well-formed string; nothing was saved.
   * @throws {StateInvalidError} The state doesn't fit the schema; nothing was saved.
   * @throws {StorageError} The disk failed; earlier checkpoints are intact.
   */
  async saveCheckpoint(taskId: string, label: string, state: CheckpointExecutionState, error?: Error): Promise<string> {
    if (this.#isClosed) throw new ClosedError("The checkpoint manager");
    checkText("A label", label);
    if (!this.#config.enabled) return "";
    return (await this.#session.append(taskId, label, state, { error })).id;
  }

  /**
   * Returns the checkpoint with that id, and changes nothing. Each call returns an independent value.
   *
   * @throws {CheckpointNotFoundError} There is no such checkpoint.
   * @throws {CheckpointCorruptError} The checkpoint can't be read.
   */
  async restoreCheckpoint(checkpointId: string): Promise<CheckpointData> {
    const taskId = parseTaskId(checkpointId);
    try {
      return toData(await this.#checkpoints.restore(taskId, checkpointId));
    } catch (error) {
      // The core's message names a method that this class lacks.
      throw error instanceof CheckpointNotFoundError ? notFound(checkpointId, taskId) : error;
    }
  }

  /**
   * Returns the task's newest checkpoint, or null.
   *
   * @throws {CheckpointCorruptError} There are checkpoints, but none of them can be read.
   */
  async getLatestCheckpoint(taskId: string): Promise<CheckpointData | null> {
    const latest = await this.#checkpoints.latest(taskId);
    return latest === undefined ? null : toData(latest);
  }

  /**
   * Returns the task's checkpoints, in the order in which they were saved.
   *
   * @throws {CheckpointCorruptError} There are checkpoints, but none of them can be read.
   */
  async listCheckpoints(taskId: string): Promise<CheckpointData[]> {
    const found: CheckpointData[] = [];
    for await (const checkpoint of this.#checkpoints.history(taskId, { order: "oldest" }))
      found.push(toData(checkpoint));
    return found;
  }

  /**
   * Removes the task's oldest checkpoints.
   *
   * @param retain - How many are kept, from 0. With 0, the task is removed. Default: `maxCheckpoints`.
   * @throws {CheckpointCorruptError} The task's file can't be read; it was left untouched.
   */
  async cleanup(taskId: string, retain?: number): Promise<void> {
    checkInteger("retain", retain, 0);
    // `prune` is called even if the task is removed afterwards, because `prune` refuses an unreadable file.
    await this.#checkpoints.retention.prune(taskId, { keepLast: (retain ?? this.#config.maxCheckpoints) || 1 });
    if (retain === 0) await this.#checkpoints.removeTask(taskId);
  }

  /**
   * Removes one checkpoint; the others stay intact.
   *
   * @throws {CheckpointNotFoundError} There is no checkpoint with that id.
   */
  async deleteCheckpoint(checkpointId: string): Promise<void> {
    const taskId = parseTaskId(checkpointId);
    if (!(await this.#checkpoints.remove(taskId, checkpointId))) throw notFound(checkpointId, taskId);
  }

  /** Whether the task has any checkpoint. */
  async hasCheckpoint(taskId: string): Promise<boolean> {
    return this.#checkpoints.has(taskId);
  }

  /** Waits for calls in progress. Idempotent. Every later call throws a ClosedError. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#session.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  static {
    enabledCheckpoints = (manager) => (manager.#config.enabled ? manager.#session : undefined);
  }
}

function resolveConfig(config: Partial<CheckpointConfig>): CheckpointConfig {
  checkKeys("CheckpointConfig", config, Object.keys(DEFAULTS));
  const { maxCheckpoints, enabled, autoCleanup } = config;
  checkInteger("CheckpointConfig.maxCheckpoints", maxCheckpoints, 1);
  for (const [name, value] of Object.entries({ enabled, autoCleanup })) {
    if (value !== undefined && typeof value !== "boolean") {
      throw new TypeError(`CheckpointConfig.${name} must be true or false, not ${JSON.stringify(value)}.`);
    }
  }
  return {
    maxCheckpoints: maxCheckpoints ?? DEFAULTS.maxCheckpoints,
    enabled: enabled ?? DEFAULTS.enabled,
    autoCleanup: autoCleanup ?? DEFAULTS.autoCleanup,
  };
}

function toData(checkpoint: Checkpoint<CheckpointExecutionState>): CheckpointData {
  const { id, taskId, label = "", state, createdAt, error } = checkpoint;
  const data = { id, taskId, label, state, createdAt: new Date(createdAt) };
  if (error === undefined) return data;
  const { message, code, stack } = error;
  return {
    ...data,
    error: {
      message,
      ...(code === undefined ? undefined : { code }),
      ...(stack === undefined ? undefined : { stack }),
    },
  };
}

function parseTaskId(checkpointId: string): string {
  checkText("A checkpoint id", checkpointId);
  const taskId = taskOfCheckpointId(checkpointId);
  if (taskId !== undefined) return taskId;
  throw new CheckpointNotFoundError(
    `There is no checkpoint ${JSON.stringify(checkpointId)}: an id has the form {taskId}_{timestamp}_{stage} with a unique end.`,
    { taskId: "", id: checkpointId },
  );
}

function notFound(id: string, taskId: string): CheckpointNotFoundError {
  return new CheckpointNotFoundError(
    `Task ${JSON.stringify(taskId)} has no checkpoint ${JSON.stringify(id)}: it was never saved, or was removed. ` +
      "listCheckpoints(taskId) shows those it has.",
    { taskId, id },
  );
}
