import { types } from "node:util";
import { encodePlainJson } from "../../src/codec/json.js";
import { findKind } from "../../src/codec/kinds.js";
import type { PayloadOwner } from "../../src/codec/transforms.js";
import { checkKeys, checkText, listKeys, MAX_TASK_ID_LENGTH } from "../../src/contract/arguments.js";
import { encodeWithSchema, type StateSchema } from "../../src/manager/schema.js";
import type { BuildProgress, BuildState } from "./checkpoint.js";

/** How values become JSON texts. */
export interface Encoding {
  readonly taskSchema: StateSchema | undefined;
  readonly maxPayloadBytes: number;
}

/** A checkpoint as its row will hold it. The caller's values were read once, synchronously. */
export interface BuildDraft {
  /** If undefined, the store makes a unique one. */
  readonly id: string | undefined;
  readonly buildId: string;
  readonly tasks: string;
  readonly currentPhase: number;
  readonly metadata: string | undefined;
}

/** A build's state as its row will hold it. */
export interface StateDraft {
  readonly buildId: string;
  readonly columns: readonly (string | number)[];
}

/**
 * @param progress - The checkpoint's parts. If they contain a `buildId`, it must equal the first argument.
 * @throws {TypeError | RangeError} A part is missing or of the wrong type.
 * @throws {StateInvalidError} The schema refuses a task.
 * @throws {StateNotSerializableError} JSON would lose something.
 */
export function toBuildDraft(
  buildId: string,
  id: string | undefined,
  progress: BuildProgress,
  encoding: Encoding,
): BuildDraft {
  const subject = id === undefined ? `A checkpoint of build ${JSON.stringify(buildId)}` : `Checkpoint ${id}`;
  checkParts(subject, progress);
  if (progress.buildId !== undefined && progress.buildId !== buildId) {
    throw new TypeError(
      `${subject} belongs to build ${JSON.stringify(progress.buildId)}, but it was given for ${JSON.stringify(buildId)}. Nothing was saved.`,
    );
  }
  checkPhase(progress.currentPhase);
  // Null counts as missing, because the spec's own program also stores null.
  const metadata: unknown = progress.metadata ?? undefined;
  if (metadata !== undefined && (typeof metadata !== "object" || Array.isArray(metadata))) {
    throw new TypeError("A checkpoint's metadata must be an object.");
  }
  const context = id === undefined ? undefined : { taskId: buildId, id, stateVersion: 1 };
  const tasks = storedTasks(progress.tasks, encoding, subject);
  return {
    id,
    buildId,
    tasks: encodeJson("tasks", tasks, encoding, context),
    currentPhase: progress.currentPhase,
    metadata: metadata === undefined ? undefined : encodeJson("metadata", metadata, encoding, context),
  };
}

/** @throws As {@link toBuildDraft}. */
export function toStateDraft(state: BuildState, encoding: Encoding): StateDraft {
  checkKeys("A build's state", state, STATE_KEYS);
  const { buildId, prdFile, startTime, completedTasks, failedTasks, currentPhase, logs } = state;
  checkBuildId(buildId);
  checkText("A build's prdFile", prdFile);
  checkText("A build's startTime", startTime);
  checkPhase(currentPhase);
  const tasks = storedTasks(state.tasks, encoding, `The state of build ${JSON.stringify(buildId)}`);
  for (const [name, list] of Object.entries({ completedTasks, failedTasks })) checkList(name, list);
  if (logs === undefined)
    throw new TypeError("A build's logs are missing: pass [] if there are none. Nothing was saved.");
  const json = (name: string, value: unknown) => encodeJson(name, value, encoding);
  return {
    buildId,
    columns: [
      buildId,
      prdFile,
      startTime,
      json("tasks", tasks),
      json("completedTasks", completedTasks),
      json("failedTasks", failedTasks),
      currentPhase,
      json("logs", logs),
    ],
  };
}

const PARTS = listKeys<BuildProgress>({ buildId: true, tasks: true, currentPhase: true, metadata: true });
/**
 * The other keys of a loaded checkpoint. A caller may pass a loaded checkpoint to a save, so these keys cause
 * no warning.
 */
const GIVEN_BY_SAVES = ["id", "timestamp"];
const STATE_KEYS = listKeys<BuildState>({
  buildId: true,
  prdFile: true,
  startTime: true,
  tasks: true,
  completedTasks: true,
  failedTasks: true,
  currentPhase: true,
  logs: true,
});

/** The keys without a column, which aren't stored. */
export function keysWithoutColumn(progress: object): readonly string[] {
  return Object.keys(progress).filter((key) => ![...PARTS, ...GIVEN_BY_SAVES].includes(key));
}

function checkParts(subject: string, progress: BuildProgress): void {
  if (typeof progress === "object" && progress !== null && !Array.isArray(progress)) return;
  throw new TypeError(`${subject} must be an object: { tasks, currentPhase, metadata }.`);
}

function storedTasks(tasks: readonly unknown[], { taskSchema }: Encoding, subject: string): readonly unknown[] {
  checkList("tasks", tasks);
  if (taskSchema === undefined) return tasks;
  return tasks.map((task, i) => encodeWithSchema(taskSchema, task, `${subject} was not saved, tasks[${i}] is invalid`));
}

/**
 * The JSON of one column. While it is encoded, the value is wrapped under the column's name, so that error messages
 * show the path (`$.tasks[3]`).
 */
function encodeJson(name: string, value: unknown, { maxPayloadBytes }: Encoding, context?: PayloadOwner): string {
  const around = `{"${name}":`;
  const json = encodePlainJson({ [name]: withDatesAsText(value) }, maxPayloadBytes + around.length + 1, context);
  return json.slice(around.length, -1);
}

/** Turns dates into ISO texts, as the spec's program does. Values without dates stay as they are. */
function withDatesAsText(value: unknown, ancestors: readonly unknown[] = []): unknown {
  if (types.isDate(value) && !Number.isNaN(value.getTime())) return value.toISOString();
  if (typeof value !== "object" || value === null || ancestors.includes(value)) return value;
  const prototype: object | null = Object.getPrototypeOf(value);
  if (prototype === null || !["Array", "Object"].includes(findKind(prototype) ?? "")) return value;
  const members: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  const changed = members.map(([key, item]) => [key, withDatesAsText(item, [...ancestors, value])] as const);
  if (changed.every(([, item], at) => item === members[at]?.[1])) return value;
  return Array.isArray(value) ? changed.map(([, item]) => item) : Object.fromEntries(changed);
}

function checkList(name: string, list: unknown): void {
  if (!Array.isArray(list)) throw new TypeError(`${name} must be an array, not ${typeof list}. Nothing was saved.`);
}

function checkPhase(phase: number): void {
  if (typeof phase !== "number") throw new TypeError(`currentPhase must be a number, not ${typeof phase}.`);
  if (!Number.isSafeInteger(phase)) throw new RangeError(`currentPhase must be a whole number, not ${phase}.`);
}

/** @throws {TypeError | RangeError} The id isn't well-formed text, is empty, or is longer than 512 UTF-16 units. */
export function checkBuildId(buildId: string): void {
  checkText("A buildId", buildId, 1, MAX_TASK_ID_LENGTH);
}
