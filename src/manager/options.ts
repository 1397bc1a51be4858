import { randomUUID } from "node:crypto";
import { types } from "node:util";
import { type EncodedState, encodeJson } from "../codec/json.js";
import { type RedactedPaths, Redaction, type RedactOptions } from "../codec/redaction.js";
import { checkTransforms, type Transform } from "../codec/transforms.js";
import { type CheckpointQuery, checkKeys, type StorageAdapter, type TaskQuery } from "../contract/adapter.js";
import type { CheckpointStatus, JsonObject } from "../contract/checkpoint.js";
import { checkFunction, checkId, checkInteger, checkStatus, checkText, checkWord } from "./arguments.js";
import { type Logger, safeLogger, warningLogger } from "./logger.js";
import { checkRetentionPolicy, type RetentionPolicy } from "./retention.js";
import type { StateSchema } from "./schema.js";

/** What a checkpoint's id may be made of. */
export interface NewCheckpoint {
  readonly taskId: string;
  readonly stage: string | undefined;
  /** By the manager's clock, in milliseconds since 1970. */
  readonly nowMs: number;
}

/** Brings a stored state from one version's shape to the next one's. */
export type Migration = (stored: unknown) => unknown;

export interface CheckpointManagerOptions<Schema extends StateSchema = StateSchema> {
  /** Where checkpoints are kept. */
  readonly storage: StorageAdapter;
  /** Whether `close` closes the storage too. Default true. */
  readonly ownsStorage?: boolean | undefined;
  /** What a state must be, checked on save and on load. Zod, or any synchronous Standard Schema. */
  readonly schema?: Schema | undefined;
  /** The version of the state's shape, from 1. Default 1. Raise it with each change that old states don't fit. */
  readonly stateVersion?: number | undefined;
  /** Under `n`: brings a state of version n to n + 1, in its stored form (before the schema decodes it). */
  readonly migrations?: Readonly<Record<number, Migration>> | undefined;
  /** What is kept after each save. Without it, everything is. */
  readonly retention?: RetentionPolicy | undefined;
  /** Applied in order to what is stored, and undone on load: `[gzip()]`. */
  readonly transforms?: readonly Transform[] | undefined;
  /** Secrets that are not to be stored: by their paths in state, metadata, label and error. */
  readonly redact?: RedactOptions | undefined;
  /** The largest encoded state, in bytes. Default 64 MiB. */
  readonly maxPayloadBytes?: number | undefined;
  /** Makes a checkpoint's id, unique in its task. Default: a random UUID. */
  readonly createId?: ((checkpoint: NewCheckpoint) => string) | undefined;
  /** Milliseconds since 1970. Default `Date.now`. It dates checkpoints, and never orders them. */
  readonly clock?: (() => number) | undefined;
  /** Default: warnings and errors are process warnings. */
  readonly logger?: Logger | undefined;
}

export interface SaveOptions {
  readonly stage?: string | undefined;
  readonly label?: string | undefined;
  /** Default `running`, or `failed` where `error` is given. */
  readonly status?: CheckpointStatus | undefined;
  /** The checkpoint this one goes on from. */
  readonly parentId?: string | undefined;
  /** Plain JSON; it shows in lists, so keep it small. */
  readonly metadata?: JsonObject | undefined;
  /** Why the task failed or paused. An Error, or anything that was thrown. */
  readonly error?: unknown;
  /** Save only if the newest checkpoint has this sequence now; 0 for none. */
  readonly expectedSequence?: number | undefined;
}

/** Which checkpoint `latest` looks for. */
export interface LatestFilter {
  readonly stage?: string | undefined;
  readonly status?: CheckpointStatus | readonly CheckpointStatus[] | undefined;
}

export interface ListQuery extends LatestFilter {
  /** By sequence. Default `newest`. */
  readonly order?: "newest" | "oldest" | undefined;
  readonly beforeSequence?: number | undefined;
  readonly afterSequence?: number | undefined;
  /** Default: all. */
  readonly limit?: number | undefined;
}

export interface TasksQuery {
  /** Only ids that begin with this: a namespace, a tenant. */
  readonly prefix?: string | undefined;
  /** Only tasks whose newest checkpoint has this status. */
  readonly status?: CheckpointStatus | readonly CheckpointStatus[] | undefined;
  /** Default `taskId`. `recent`: the newest checkpoint's `createdAt`, latest first. */
  readonly order?: "taskId" | "recent" | undefined;
  /** Only ids after this one, for paging by `taskId`. */
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

export type IncompleteQuery = Pick<TasksQuery, "prefix" | "limit">;

export interface CompleteOptions {
  /** Only if the newest checkpoint still has this sequence. Default: the newest one at the time of the call. */
  readonly expectedSequence?: number | undefined;
}

/** The manager's options with their defaults. */
export interface ResolvedOptions<Schema extends StateSchema> {
  readonly storage: StorageAdapter;
  readonly ownsStorage: boolean;
  readonly schema: Schema | undefined;
  readonly stateVersion: number;
  readonly migrations: Readonly<Record<number, Migration>>;
  readonly retention: RetentionPolicy | undefined;
  readonly transforms: readonly Transform[];
  readonly redaction: Redaction | undefined;
  readonly maxPayloadBytes: number;
  readonly createId: (checkpoint: NewCheckpoint) => string;
  /** Whether `createId` is the user's: then its ids may not be unique. */
  readonly createsIds: boolean;
  readonly clock: () => number;
  readonly logger: Logger;
}

const MANAGER_KEYS = [
  "storage",
  "ownsStorage",
  "schema",
  "stateVersion",
  "migrations",
  "retention",
  "transforms",
  "redact",
  "maxPayloadBytes",
  "createId",
  "clock",
  "logger",
] satisfies (keyof CheckpointManagerOptions)[];
const SAVE_KEYS = [
  "stage",
  "label",
  "status",
  "parentId",
  "metadata",
  "error",
  "expectedSequence",
] satisfies (keyof SaveOptions)[];
const LATEST_KEYS = ["stage", "status"] satisfies (keyof LatestFilter)[];
const LIST_KEYS = [...LATEST_KEYS, "order", "beforeSequence", "afterSequence", "limit"] satisfies (keyof ListQuery)[];
const TASKS_KEYS = ["prefix", "status", "order", "after", "limit"] satisfies (keyof TasksQuery)[];

const DEFAULT_MAX_PAYLOAD_BYTES = 64 * 1024 * 1024;
/** Metadata stands in every list, so it is not a place for states. */
const MAX_METADATA_BYTES = 64 * 1024;

/** @throws {TypeError | RangeError} An option is misspelled, missing or out of range; the message names it. */
export function resolveOptions<Schema extends StateSchema>(
  options: CheckpointManagerOptions<Schema>,
): ResolvedOptions<Schema> {
  checkKeys("CheckpointManagerOptions", options, MANAGER_KEYS);
  if (typeof options.storage?.append !== "function") {
    const promised = "It is a promise: put `await` before openStorage(…).";
    const example = "For example new SqliteAdapter(…).";
    throw new TypeError(
      `CheckpointManagerOptions.storage must be a StorageAdapter. ${types.isPromise(options.storage) ? promised : example}`,
    );
  }
  if (options.schema !== undefined && typeof options.schema["~standard"]?.validate !== "function") {
    throw new TypeError(
      "CheckpointManagerOptions.schema must be a Standard Schema: Zod 3.24 or newer, Valibot, ArkType.",
    );
  }
  checkFunction("CheckpointManagerOptions.createId", options.createId);
  checkFunction("CheckpointManagerOptions.clock", options.clock);
  checkLogger("CheckpointManagerOptions", options.logger);
  checkMigrations(options.migrations);
  if (options.ownsStorage !== undefined && typeof options.ownsStorage !== "boolean") {
    throw new TypeError("CheckpointManagerOptions.ownsStorage must be true or false.");
  }
  if (options.transforms !== undefined && !Array.isArray(options.transforms)) {
    throw new TypeError("CheckpointManagerOptions.transforms must be an array: [gzip()].");
  }
  checkInteger("stateVersion", options.stateVersion, 1);
  checkInteger("maxPayloadBytes", options.maxPayloadBytes, 1);
  if (options.retention !== undefined) checkRetentionPolicy(options.retention);
  checkTransforms(options.transforms ?? []);
  return {
    storage: options.storage,
    ownsStorage: options.ownsStorage ?? true,
    schema: options.schema,
    stateVersion: options.stateVersion ?? 1,
    migrations: options.migrations ?? {},
    retention: options.retention,
    transforms: options.transforms ?? [],
    redaction: options.redact && new Redaction(options.redact),
    maxPayloadBytes: options.maxPayloadBytes ?? DEFAULT_MAX_PAYLOAD_BYTES,
    createId: options.createId ?? (() => randomUUID()),
    createsIds: options.createId !== undefined,
    clock: options.clock ?? Date.now,
    logger: safeLogger(options.logger ?? warningLogger),
  };
}

/** @throws {TypeError | RangeError} An option is misspelled or out of range. */
export function checkSaveOptions(options: SaveOptions): void {
  checkKeys("SaveOptions", options, SAVE_KEYS);
  if (options.stage !== undefined) checkId("A stage", options.stage);
  if (options.label !== undefined) checkText("A label", options.label);
  if (options.parentId !== undefined) checkId("A parentId", options.parentId);
  if (options.status !== undefined) checkStatus(options.status);
  checkInteger("expectedSequence", options.expectedSequence, 0);
}

/**
 * A copy of the metadata that the caller can't change any more.
 *
 * @throws {TypeError} It isn't an object of plain JSON.
 * @throws {RangeError} It is larger than 64 KiB.
 */
export function copyMetadata(metadata: JsonObject, redacted: RedactedPaths | undefined): JsonObject {
  const { encoding, text } = encodeMetadata(metadata, redacted);
  if (encoding !== "json" || !text.startsWith("{")) throw new TypeError(PLAIN_METADATA);
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_METADATA_BYTES) {
    throw new RangeError(
      `SaveOptions.metadata has ${bytes} bytes as JSON; at most ${MAX_METADATA_BYTES} are allowed, since it stands in every list. Keep it in the state.`,
    );
  }
  return JSON.parse(text) as JsonObject;
}

const PLAIN_METADATA =
  "SaveOptions.metadata must be an object of plain JSON: strings, numbers, booleans, null, arrays. Nothing was saved.";

function encodeMetadata(metadata: JsonObject, redacted: RedactedPaths | undefined): EncodedState {
  try {
    return encodeJson(metadata, DEFAULT_MAX_PAYLOAD_BYTES, undefined, redacted);
  } catch (cause) {
    throw new TypeError(PLAIN_METADATA, { cause });
  }
}

/** @throws {TypeError | RangeError} A part is misspelled or out of range. */
export function resolveLatestFilter(taskId: string, filter: LatestFilter): CheckpointQuery {
  checkKeys("LatestFilter", filter, LATEST_KEYS);
  return { taskId, order: "newest", ...checkedFilter(filter) };
}

/** @throws {TypeError | RangeError} A part is misspelled or out of range. */
export function resolveListQuery(taskId: string, query: ListQuery): CheckpointQuery {
  checkKeys("ListQuery", query, LIST_KEYS);
  checkWord("ListQuery.order", query.order, ["newest", "oldest"]);
  checkInteger("beforeSequence", query.beforeSequence, 1);
  checkInteger("afterSequence", query.afterSequence, 0);
  checkInteger("limit", query.limit, 0);
  const { order = "newest", beforeSequence, afterSequence, limit } = query;
  return { taskId, order, beforeSequence, afterSequence, limit, ...checkedFilter(query) };
}

/** @throws {TypeError | RangeError} A part is misspelled or out of range. */
export function resolveTasksQuery(query: TasksQuery): TaskQuery {
  checkKeys("TasksQuery", query, TASKS_KEYS);
  checkWord("TasksQuery.order", query.order, ["taskId", "recent"]);
  if (query.prefix !== undefined) checkText("TasksQuery.prefix", query.prefix);
  if (query.after !== undefined) checkText("TasksQuery.after", query.after);
  checkInteger("limit", query.limit, 0);
  const { prefix, order = "taskId", after, limit } = query;
  if (after !== undefined && order !== "taskId") throw new TypeError('TasksQuery.after needs order: "taskId".');
  return { prefix, order, after, limit, status: statuses(query.status) };
}

/** The statuses of a task that is not done. */
export const INCOMPLETE: readonly CheckpointStatus[] = ["running", "paused", "failed"];

/**
 * @param what - What has the option, for the message: `CheckpointManagerOptions`.
 * @throws {TypeError} It lacks a level.
 */
export function checkLogger(what: string, logger: Logger | undefined): void {
  if (logger === undefined) return;
  for (const level of ["debug", "info", "warn", "error"] as const) {
    if (typeof logger?.[level] !== "function") {
      throw new TypeError(`${what}.logger must have the method ${level}, as pino's loggers have.`);
    }
  }
}

function checkMigrations(migrations: CheckpointManagerOptions["migrations"]): void {
  if (migrations === undefined) return;
  if (typeof migrations !== "object" || migrations === null || Array.isArray(migrations)) {
    throw new TypeError("CheckpointManagerOptions.migrations must be an object: { 1: (stored) => … }.");
  }
  for (const [version, migration] of Object.entries(migrations)) {
    if (!/^[1-9]\d*$/.test(version)) {
      throw new TypeError(`CheckpointManagerOptions.migrations are under whole numbers from 1, not "${version}".`);
    }
    checkFunction(`CheckpointManagerOptions.migrations[${version}]`, migration);
  }
}

function checkedFilter(filter: LatestFilter): Pick<CheckpointQuery, "stage" | "status"> {
  if (filter.stage !== undefined) checkId("A stage", filter.stage);
  return { stage: filter.stage, status: statuses(filter.status) };
}

function statuses(status: LatestFilter["status"]): readonly CheckpointStatus[] | undefined {
  if (status === undefined) return undefined;
  if (typeof status !== "string" && !Array.isArray(status)) {
    throw new TypeError("A status to look for is one, or an array of them.");
  }
  const list: readonly CheckpointStatus[] = typeof status === "string" ? [status] : status;
  for (const one of list) checkStatus(one);
  return list;
}
