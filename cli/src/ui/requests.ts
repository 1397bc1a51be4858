import { z } from "zod";
import { CommandError, ExitCode } from "../exit-code.js";
import { TASKS_THAT_CONTINUE } from "../queries/incomplete.js";
import type { LiveQueries, Queries } from "./api.js";

/** The request of each query. */
export type Requests = { readonly [Name in keyof Queries]: Queries[Name]["request"] } & {
  readonly [Name in keyof LiveQueries]: LiveQueries[Name]["request"];
};

const MOST_ID_UNITS = 512;
const MOST_ROWS = 1_000;
const MOST_VISIBLE = 200;
const MOST_STEPS = 10_000;

const id = z.string().min(1).max(MOST_ID_UNITS);
const sequence = z.int().min(0);
const count = z.int().min(0);
const limit = z.int().min(1).max(MOST_ROWS);
const nothing = z.strictObject({});
const force = z.boolean().exactOptional();
const TASK_STATUSES = [...TASKS_THAT_CONTINUE, "completed", "cancelled"] as const;

const filter = {
  prefix: z.string().max(MOST_ID_UNITS).exactOptional(),
  status: z.array(z.enum(TASK_STATUSES)).exactOptional(),
  stage: z.string().exactOptional(),
  text: z.string().min(1).max(MOST_ID_UNITS).exactOptional(),
  withinMs: z.number().min(0).exactOptional(),
  error: z.string().max(MOST_ID_UNITS).exactOptional(),
};
const { text, withinMs, prefix } = filter;
const checkpoint = { taskId: id, id };

const REQUESTS: { readonly [Name in keyof Requests]: z.ZodType<Requests[Name]> } = {
  session: nothing,
  tasks: z.strictObject({
    ...filter,
    order: z.enum(["recent", "taskId"]),
    offset: count,
    limit,
    view: z.string().exactOptional(),
  }),
  counts: nothing,
  inbox: nothing,
  failures: z.strictObject({ text, withinMs, prefix }),
  choose: z.strictObject({
    taskIds: z.array(id).max(MOST_ROWS).exactOptional(),
    filter: z.strictObject(filter).exactOptional(),
  }),
  task: z.strictObject({ taskId: id, beforeSequence: sequence.exactOptional(), limit: limit.exactOptional() }),
  family: z.strictObject({ taskId: id }),
  export: z.strictObject({ taskId: id }),
  timeline: z.strictObject({ taskId: id }),
  step: z.strictObject({ taskId: id, record: z.int().min(1) }),
  checkpoint: z.strictObject({ taskId: id, id: id.exactOptional() }),
  state: z.strictObject({ ...checkpoint, path: z.array(count).max(MOST_STEPS), from: count.exactOptional() }),
  search: z.strictObject({ ...checkpoint, text: z.string().min(1) }),
  diff: z.strictObject({ taskId: id, from: id.exactOptional(), fromTaskId: id.exactOptional(), to: id }),
  retention: z.strictObject({
    taskId: id.exactOptional(),
    choiceId: z.string().exactOptional(),
    // The library checks the policy itself.
    policy: z
      .strictObject({
        keepLast: z.number(),
        keepWithinMs: z.number(),
        keepHourly: z.number(),
        keepDaily: z.number(),
        keepWeekly: z.number(),
        keepMonthly: z.number(),
        keepStages: z.array(z.string()),
        timeZone: z.string(),
        maxAgeMs: z.number(),
        maxBytes: z.number(),
      })
      .partial()
      .exactOptional(),
  }),
  events: z.strictObject({ taskId: id }),
  storage: nothing,
  "repair-plan": nothing,
  // A blank name is refused by the action, with a message for people.
  fork: z.strictObject({ ...checkpoint, newTaskId: z.string().max(MOST_ID_UNITS), force }),
  rewind: z.strictObject({ ...checkpoint, force }),
  complete: z.strictObject({ taskId: id, expectedSequence: sequence, force }),
  delete: z.strictObject({ taskId: id, id: id.exactOptional(), force }),
  send: z.strictObject({
    taskId: id,
    name: z.string().min(1).max(MOST_ID_UNITS),
    value: z.json().exactOptional(),
    by: z.string().min(1).exactOptional(),
    wait: z.string().min(1).exactOptional(),
  }),
  cancel: z.strictObject({ taskId: id, reason: z.string().min(1) }),
  retry: z.strictObject({ taskId: id, from: z.string().min(1).exactOptional() }),
  "retry-chosen": z.strictObject({ choiceId: z.string() }),
  "cancel-chosen": z.strictObject({ choiceId: z.string(), reason: z.string().min(1) }),
  prune: z.strictObject({ planId: z.string() }),
  repair: nothing,
  "watch-tasks": z.strictObject({ ...filter, visible: z.array(id).max(MOST_VISIBLE) }),
  "watch-task": z.strictObject({ taskId: id }),
  verify: z.strictObject({ quick: z.boolean().exactOptional() }),
};

export function isQuery(name: string): name is keyof Requests {
  return Object.hasOwn(REQUESTS, name);
}

/** @throws {CommandError} The body isn't that query's request. */
export function parseRequest<Name extends keyof Requests>(name: Name, body: string): Requests[Name] {
  const form: z.ZodType<Requests[Name]> = REQUESTS[name];
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (cause) {
    throw new CommandError(ExitCode.usage, "The request's body isn't JSON.", { cause });
  }
  const { data, error } = form.safeParse(value);
  if (error === undefined) return data;
  const [issue] = error.issues;
  const where = [name, ...(issue?.path ?? [])].join(".");
  throw new CommandError(ExitCode.usage, `The request is wrong at ${where}: ${issue?.message}.`);
}
