import { types } from "node:util";
import { DEFAULT_MAX_PAYLOAD_BYTES } from "../codec/payload.js";
import { checkTransforms, type Transform } from "../codec/transforms.js";
import type { StorageAdapter } from "../contract/adapter.js";
import { checkBoolean, checkFunction, formWith } from "../contract/arguments.js";
import { type Runtime, realRuntime } from "../contract/runtime.js";
import { checkOptions, type OptionChecks, wholeFrom } from "./check-options.js";
import { type Logger, safeLogger, warningLogger } from "./logger.js";
import { Redaction, type RedactOptions } from "./redaction.js";
import { checkRetentionPolicy, type RetentionPolicy } from "./retention-plan.js";
import { checkSchema, type StateSchema } from "./schema.js";

export interface CheckpointManagerOptions<Schema extends StateSchema = StateSchema> {
  /** The storage of the checkpoints. */
  readonly storage: StorageAdapter;
  /** Whether `close` closes the storage too. Default true. */
  readonly ownsStorage?: boolean | undefined;
  /**
   * Validates states on save and on load: Zod, or any synchronous Standard Schema. If it drops keys of a saved state,
   * as `z.object` drops unknown keys, a warning is logged once.
   */
  readonly schema?: Schema | undefined;
  /** The version of the state's shape, from 1. Default 1. Raise it when old states no longer match the schema. */
  readonly stateVersion?: number | undefined;
  /** `migrations[n]` converts a state from version n to n + 1, in its stored form (before the schema decodes it). */
  readonly migrations?: Readonly<Record<number, (stored: unknown) => unknown>> | undefined;
  /** The policy that removes checkpoints after each save. Default: all are kept. */
  readonly retention?: RetentionPolicy | undefined;
  /**
   * Compression and encryption of states: `[gzip()]`. They are applied in this order on save, and undone on load. With
   * transforms, SQLite and PostgreSQL store each state whole, instead of its changes.
   */
  readonly transforms?: readonly Transform[] | undefined;
  /** Secrets that must not be stored. */
  readonly redact?: RedactOptions | undefined;
  /** The largest encoded state, in bytes. Default 64 MiB. */
  readonly maxPayloadBytes?: number | undefined;
  /** Makes a checkpoint's id, unique in its task. Default: a random UUID. */
  readonly createId?:
    | ((checkpoint: {
        readonly taskId: string;
        readonly stage: string | undefined;
        /** The time by the manager's clock, in milliseconds since 1970. */
        readonly nowMs: number;
      }) => string)
    | undefined;
  /**
   * Returns milliseconds since 1970. This time dates checkpoints but never orders them, and decides when a sleep is
   * over and when a task is due. Default: `runtime.now()`, which is `Date.now()`.
   */
  readonly clock?: (() => number) | undefined;
  /**
   * The source of time, timers, turns of the event loop and ids. Tests can pass a `SimulatedRuntime` of
   * `waymark/testing`. Default: the process.
   */
  readonly runtime?: Runtime | undefined;
  /** Default: warnings and errors become process warnings. */
  readonly logger?: Logger | undefined;
}

/** The manager's options with their defaults. */
export interface ResolvedOptions {
  readonly storage: StorageAdapter;
  readonly ownsStorage: boolean;
  readonly schema: StateSchema | undefined;
  readonly stateVersion: number;
  readonly migrations: Readonly<Record<number, (stored: unknown) => unknown>>;
  readonly retention: RetentionPolicy | undefined;
  readonly transforms: readonly Transform[];
  readonly redaction: Redaction | undefined;
  readonly maxPayloadBytes: number;
  readonly createId: CheckpointManagerOptions["createId"];
  readonly clock: () => number;
  readonly runtime: Runtime;
  readonly logger: Logger;
}

export function resolveOptions(options: CheckpointManagerOptions): ResolvedOptions {
  if (typeof options === "object" && options !== null && "append" in options) {
    throw new TypeError("CheckpointManager takes options: new CheckpointManager({ storage }).");
  }
  checkOptions(
    "CheckpointManagerOptions",
    options,
    OPTION_CHECKS,
    formWith("storage", undefined),
    (key) => `options.${key}`,
  );
  checkStorage(options.storage);
  const { transforms = [], runtime = realRuntime, logger: programLogger } = options;
  const outside = <Target extends object>(target: Target) => runtime.outside?.(target) ?? target;
  const logger = programLogger === undefined ? warningLogger : safeLogger(programLogger);
  if (transforms.length > 0) {
    logger.info(
      { transforms: transforms.map(({ name }) => name) },
      "With transforms, each state is stored whole, because the storage can't see which parts have changed",
    );
  }
  return {
    storage: outside(options.storage),
    ownsStorage: options.ownsStorage ?? true,
    schema: options.schema,
    stateVersion: options.stateVersion ?? 1,
    migrations: options.migrations ?? {},
    retention: options.retention,
    transforms: transforms.map(outside),
    redaction: options.redact && new Redaction(options.redact),
    maxPayloadBytes: options.maxPayloadBytes ?? DEFAULT_MAX_PAYLOAD_BYTES,
    createId: options.createId,
    clock: options.clock ?? runtime.now.bind(runtime),
    runtime,
    logger,
  };
}

const OPTION_CHECKS: OptionChecks<CheckpointManagerOptions> = {
  storage: true,
  ownsStorage: checkBoolean,
  schema: checkSchema,
  stateVersion: wholeFrom(1),
  migrations: checkMigrations,
  retention: (_what, policy) => checkRetentionPolicy(policy),
  transforms: checkTransformList,
  redact: true,
  maxPayloadBytes: wholeFrom(1),
  createId: checkFunction,
  clock: checkFunction,
  runtime: checkRuntime,
  logger: (_what, logger) => checkLogger("options", logger),
};

function checkRuntime(what: string, runtime: Runtime): void {
  for (const member of ["now", "elapsedMs", "setTimeout", "setImmediate", "randomUUID"] as const) {
    if (typeof runtime?.[member] !== "function") throw new TypeError(`${what} must have the method ${member}.`);
  }
}

function checkStorage(storage: unknown): void {
  const isAdapter = typeof storage === "object" && storage !== null && "append" in storage;
  if (isAdapter && typeof storage.append === "function") return;
  throw new TypeError(`options.storage must be a StorageAdapter. ${howToOpen(storage)}`);
}

function checkTransformList(what: string, transforms: readonly Transform[]): void {
  if (!Array.isArray(transforms)) throw new TypeError(`${what} must be an array, such as [gzip()].`);
  checkTransforms(transforms);
}

function howToOpen(storage: unknown): string {
  if (types.isPromise(storage)) return "It is a promise: await it first.";
  // The string isn't shown in the message, since a server's URL may contain a password.
  if (typeof storage === "string") {
    return 'It is a string. openManager({ storage }) of "waymark/config" takes a storage URL and returns a manager.';
  }
  return "Pass, for example, new SqliteAdapter(…).";
}

/**
 * @param what - The name of the options, for the message.
 * @throws {TypeError} The logger lacks a level.
 */
export function checkLogger(what: string, logger: Logger | undefined): void {
  if (logger === undefined) return;
  for (const level of ["debug", "info", "warn", "error"] as const) {
    if (typeof logger?.[level] !== "function") {
      throw new TypeError(`${what}.logger must have the method ${level}, as pino's loggers have.`);
    }
  }
}

function checkMigrations(what: string, migrations: ResolvedOptions["migrations"]): void {
  if (typeof migrations !== "object" || migrations === null || Array.isArray(migrations)) {
    throw new TypeError(`${what} must be an object, such as { 1: (stored) => … }.`);
  }
  for (const [version, migration] of Object.entries(migrations)) {
    if (!/^[1-9]\d*$/.test(version)) {
      throw new TypeError(`The keys of ${what} must be whole numbers from 1, not "${version}".`);
    }
    checkFunction(`${what}[${version}]`, migration);
  }
}
