// Finds the violations of a chaos run by comparing the plan, the ledger and the store.
import type { Fact } from "./ledger.js";
import {
  childPlansOf,
  childTaskId,
  FOLLOWED,
  groupsOf,
  isForEvent,
  type Kind,
  MAX_ATTEMPTS,
  MILESTONE,
  PLANNED_FAILURE,
  type Plan,
  PREFIX,
} from "./plan.js";
import type { StorageName } from "./store.js";

/** A task that is stored at the end. */
export interface Stored {
  readonly taskId: string;
  readonly status: string;
  readonly error?: { readonly name?: string; readonly message: string } | undefined;
  readonly result?: unknown;
  readonly saves: readonly {
    readonly sequence: number;
    readonly token: number;
    readonly label?: string | undefined;
  }[];
  readonly events: readonly { readonly id: string; readonly status: string }[];
  /** The records that stay: of steps, events, and changes of the run. */
  readonly records: readonly { readonly sequence: number; readonly kind: string }[];
}

interface Task {
  readonly plan: Plan;
  readonly facts: readonly Fact[];
  readonly stored: Stored | undefined;
}

/** The plans, facts and stored tasks of a chaos run. */
export interface Outcome {
  readonly storage: StorageName;
  readonly plans: readonly Plan[];
  readonly facts: readonly Fact[];
  readonly stored: ReadonlyMap<string, Stored>;
}

/** The kinds of records that stay. */
export const STAYING = ["step", "event", "run"] as const;

/** A run of at least this many seconds must have each kind of fault. */
const LONG_SECONDS = 60;

/** Returns descriptions of the violations. */
export function violationsOf({ storage, plans, facts, stored }: Outcome): string[] {
  const byTask = grouped(facts, ({ task }) => task);
  const all = plans.flatMap((plan) => [plan, ...childPlansOf(plan)]);
  const tasks = all.map((plan) => ({
    plan,
    facts: byTask.get(plan.taskId) ?? [],
    stored: stored.get(plan.taskId),
  }));
  return [
    ...CHECKS.flatMap((violations) => tasks.flatMap(violations)),
    ...plans.flatMap((plan) => children(plan, stored)),
    ...calls(facts, new Set(plans.map(({ taskId }) => taskId))),
    ...keys(facts),
    ...errors(facts, new Map(plans.map((plan) => [plan.taskId, plan])), storage),
  ];
}

/** Returns a violation for each missing kind of fault. @param faults - How many times each kind of fault happened. */
export function missingFaults(faults: Readonly<Record<string, number>>, seconds: number): string[] {
  if (seconds < LONG_SECONDS) return [];
  const missing = Object.entries(faults).filter(([, count]) => count === 0);
  return missing.map(([kind]) => `there were no ${kind}`);
}

const CHECKS = [ended, delays, poison, results, milestones, onces, fencing, events, sleeps, followed, awaited];

/** Checks that the task has ended as planned. */
function ended({ plan: { taskId, ends }, stored }: Task): string[] {
  if (stored === undefined) return [`${taskId} is not stored`];
  const { status, error } = stored;
  const how = `${taskId} is ${status}${error === undefined ? "" : ` (${error.name}: ${error.message})`}`;
  if (ends === "completed") return status === "completed" ? [] : [`${how}, and should be completed`];
  const isPlanned = ends === "failed" ? error?.message === PLANNED_FAILURE : error?.name === "AttemptsError";
  return status === "failed" && isPlanned ? [] : [`${how}, and should be ${ends}`];
}

/** Checks that the task's followers together got each staying record once and in order, and then the task's end. */
function followed({ plan: { taskId, number }, facts, stored }: Task): string[] {
  // Child runs aren't followed.
  if (number % FOLLOWED !== 0 || taskId !== `${PREFIX}${number}` || stored === undefined) return [];
  if (ofKind(facts, "followedAll").length !== 1) return [`${taskId} wasn't followed to its end`];
  const violations: string[] = [];
  const seen = ofKind(facts, "followed").sort((a, b) => a.atMs - b.atMs);
  const sequences = new Set(seen.map(({ sequence }) => sequence));
  for (const [at, { sequence }] of seen.entries()) {
    const before = seen[at - 1]?.sequence ?? 0;
    if (sequence <= before) violations.push(`${taskId}: a follower got ${sequence} after ${before}`);
  }
  for (const { sequence, kind } of stored.records) {
    if (!sequences.has(sequence))
      violations.push(`${taskId}: no follower got the ${kind} with the sequence ${sequence}`);
  }
  const staying = new Set(stored.records.map(({ sequence }) => sequence));
  for (const { sequence, kind } of seen) {
    if (STAYING.some((one) => one === kind) && !staying.has(sequence))
      violations.push(`${taskId}: a follower got the ${kind} with the sequence ${sequence}, which isn't stored`);
  }
  return violations;
}

/** Checks that each wait for the task's result got the result or the failure. */
function awaited({ plan: { taskId, number }, facts, stored }: Task): string[] {
  if (number % FOLLOWED !== 0 || taskId !== `${PREFIX}${number}` || stored === undefined) return [];
  const [end, ...others] = ofKind(facts, "awaited");
  if (end === undefined || others.length > 0)
    return [`${taskId} had ${others.length + (end ? 1 : 0)} ends of waits for its result`];
  const expected = JSON.stringify(stored.status === "completed" ? stored.result : "failed");
  const got = JSON.stringify(end.outcome);
  return got === expected ? [] : [`a wait for the result of ${taskId} got ${got}, and ${expected} is stored`];
}

/** Checks that the task began no earlier than it was due. */
function delays({ plan: { taskId, delayMs }, facts }: Task): string[] {
  if (delayMs === 0) return [];
  // A killed sender may have enqueued the task before the next sender did.
  const dueAtMs = Math.min(...ofKind(facts, "delayed").map((one) => one.dueAtMs));
  const early = ofKind(facts, "started").filter(({ nowMs }) => nowMs < dueAtMs);
  return early.map(({ nowMs }) => `${taskId} began ${dueAtMs - nowMs} ms before it was due`);
}

/** Checks that a task that kills its workers was tried exactly as many times as planned. */
function poison({ plan: { taskId, ends, steps }, facts, stored }: Task): string[] {
  if (ends !== "poison") return [];
  const before = steps.length - 2;
  // The facts aren't sorted by time, because the ledgers are read one after another.
  const reached = Math.min(...ofKind(facts, "got").flatMap(({ step, atMs }) => (step === before ? atMs : [])));
  // The attempt that reached the last step, or an earlier attempt that was killed in the meantime.
  const first = Math.max(0, ...ofKind(facts, "claimed").flatMap(({ token, atMs }) => (atMs < reached ? token : [])));
  const last = Math.max(0, ...(stored?.saves ?? []).map(({ token }) => token));
  const violations =
    last - first < MAX_ATTEMPTS ? [`${taskId} was tried ${last - first} times, and should be ${MAX_ATTEMPTS}`] : [];
  // The first of these attempts had saved a step, and an attempt that pauses resets the count.
  let deaths = 0;
  for (const { is } of facts.toSorted((a, b) => a.atMs - b.atMs)) {
    if (is === "released") deaths = 0;
    if (is === "died") deaths += 1;
    if (is === "died" && deaths === MAX_ATTEMPTS + 2) {
      violations.push(`${taskId} killed its worker more than ${MAX_ATTEMPTS + 1} times`);
    }
  }
  return violations;
}

/**
 * Checks that each step has one result: all attempts saw the same result, a call of the step made it, and it is in the
 * run's result.
 */
function results({ plan: { taskId, steps }, facts, stored }: Task): string[] {
  const made = grouped(ofKind(facts, "ran"), ({ step }) => step);
  const got = grouped(ofKind(facts, "got"), ({ step }) => step);
  const result: readonly unknown[] = Array.isArray(stored?.result) ? stored.result : [];
  const violations = [...got].flatMap(([step, seen]) => {
    const [value, ...others] = new Set(seen.map((one) => one.value));
    const title = `step ${step} of ${taskId}`;
    if (others.length > 0) return [`${title} has several results: ${[value, ...others].join(", ")}`];
    if (value === undefined || !isPossible(steps[step]?.kind, value, made.get(step) ?? [])) {
      return [`${title} has the result ${value}, which no call of it made`];
    }
    if (stored?.status === "completed" && result[step] !== value) {
      return [`${title} gave ${value}, and ${result[step]} is recorded`];
    }
    return [];
  });
  if (stored?.status !== "completed") return violations;
  const missing = [...steps.keys()].filter((step) => !got.has(step));
  const isWhole = result.length === steps.length && missing.length === 0;
  return isWhole
    ? violations
    : [...violations, `${taskId} has ${result.length} results; missing: ${missing.join(", ")}`];
}

/** Checks that the result of a step with a child run is the child run's result. */
function children({ taskId, steps }: Plan, stored: ReadonlyMap<string, Stored>): string[] {
  const result: unknown = stored.get(taskId)?.result;
  if (!Array.isArray(result)) return [];
  return steps.flatMap(({ kind }, step) => {
    if (kind !== "child") return [];
    const own = stored.get(childTaskId(taskId, step))?.result;
    const expected = Array.isArray(own) ? own.join(", ") : "nothing";
    return result[step] === expected
      ? []
      : [`step ${step} of ${taskId} gave ${result[step]}, and its child run gave ${expected}`];
  });
}

/** Checks that the workers' function was never called for a child run. */
function calls(facts: readonly Fact[], taskIds: ReadonlySet<string>): string[] {
  const others = new Set(ofKind(facts, "called").flatMap(({ task }) => (taskIds.has(task) ? [] : task)));
  return [...others].map((task) => `a worker's function was called for ${task}`);
}

/**
 * @param calls - The calls of the step. Each was noted before its end, so no kill lost a call whose value was recorded.
 */
function isPossible(kind: Kind | undefined, value: string, calls: readonly { readonly value: string }[]): boolean {
  // The other checks compare the ids of events.
  if (isForEvent(kind)) return true;
  if (kind === "sleep") return value === "slept";
  // No event with this name is sent.
  if (kind === "timeout") return value === "nobody";
  return calls.some((call) => call.value === value) || (kind === "once" && value === "interrupted");
}

/** Checks that each planned milestone is stored once, and no others. */
function milestones({ plan: { taskId, ends, steps }, stored }: Task): string[] {
  if (stored === undefined) return [];
  const groups = groupsOf(steps).filter(({ last }) => ends === "completed" || last + 1 < steps.length);
  const planned = new Set(groups.flatMap(({ save, next }) => [save, next]).filter((label) => label !== undefined));
  const found = stored.saves.flatMap(({ label }) => (label !== undefined && MILESTONE.test(label) ? label : []));
  const counts = new Map([...planned, ...found].map((label) => [label, found.filter((one) => one === label).length]));
  return [...counts].flatMap(([label, count]) => {
    if (!planned.has(label)) return [`${taskId} has the milestone "${label}", which isn't planned`];
    return count === 1 ? [] : [`${taskId} has the milestone "${label}" ${count} times`];
  });
}

/** Checks that no `atMostOnce` step ran twice. */
function onces({ plan: { taskId, steps }, facts }: Task): string[] {
  const made = grouped(ofKind(facts, "ran"), ({ step }) => step);
  return steps.flatMap(({ kind }, step) => {
    const calls = made.get(step)?.length ?? 0;
    return kind === "once" && calls > 1 ? [`step ${step} of ${taskId} ran ${calls} times, and has atMostOnce`] : [];
  });
}

/**
 * Checks that no write succeeded under an old token: in the order of the sequences, the tokens of the saves never
 * decrease, and no save succeeded that was sent after a higher token had been granted.
 */
function fencing({ plan: { taskId }, facts, stored }: Task): string[] {
  const violations: string[] = [];
  const saved = ofKind(facts, "saved");
  let last = 0;
  // Only the ledger has saves that were replaced since. Only the store has saves whose answers were lost.
  const saves = [...(stored?.saves ?? []), ...saved];
  for (const { sequence, token } of saves.sort((a, b) => a.sequence - b.sequence)) {
    if (token < last) violations.push(`${taskId}: sequence ${sequence} has token ${token} after ${last}`);
    last = Math.max(last, token);
  }
  const claims = ofKind(facts, "claimed");
  for (const { token, sequence, sentAtMs } of saved) {
    const claim = claims.find((one) => one.token > token && one.atMs < sentAtMs);
    if (claim === undefined) continue;
    const lateMs = Math.round(sentAtMs - claim.atMs);
    violations.push(
      `${taskId}: sequence ${sequence} was saved under token ${token}, sent ${lateMs} ms after token ${claim.token} was given`,
    );
  }
  const given = new Set<number>();
  for (const { token } of claims) {
    if (given.has(token)) violations.push(`${taskId}: token ${token} was given twice`);
    given.add(token);
  }
  return violations;
}

/** Checks that each event was received once, by the task that it was sent to. */
function events({ plan, facts, stored }: Task): string[] {
  const violations: string[] = [];
  const received = grouped(
    ofKind(facts, "got").filter(({ step }) => isForEvent(plan.steps[step]?.kind)),
    ({ value }) => value,
  );
  for (const [id, seen] of received) {
    const waits = new Set(seen.map(({ step }) => step));
    if (waits.size > 1) violations.push(`${plan.taskId}: event ${id} was received by steps ${[...waits].join(", ")}`);
    if (!plan.events.some((event) => event.id === id)) {
      violations.push(`${plan.taskId}: event ${id} was received, and never sent`);
    }
  }
  const ids = stored?.events.map(({ id }) => id) ?? [];
  if (new Set(ids).size < ids.length) violations.push(`${plan.taskId}: events are stored twice: ${ids.join(", ")}`);
  if (stored?.status !== "completed") return violations;
  for (const { id } of plan.events) {
    const at = stored.events.find((event) => event.id === id);
    if (!received.has(id)) violations.push(`${plan.taskId}: event ${id} was never received`);
    else if (at?.status !== "received") {
      violations.push(`${plan.taskId}: event ${id} was received, and is stored as ${at?.status ?? "missing"}`);
    }
  }
  return violations;
}

/** Checks that no sleep and no wait with a time limit ended too early. */
function sleeps({ plan: { taskId }, facts }: Task): string[] {
  const asked = grouped(ofKind(facts, "asked"), ({ step }) => step);
  return ofKind(facts, "got").flatMap(({ step, nowMs }) => {
    const untilMs = Math.min(...(asked.get(step) ?? []).map((one) => one.untilMs));
    return Number.isFinite(untilMs) && nowMs < untilMs
      ? [`step ${step} of ${taskId} slept ${untilMs - nowMs} ms too little`]
      : [];
  });
}

/** Checks that a step's key is the same in each call, and that no other step has it. */
function keys(facts: readonly Fact[]): string[] {
  const ran = ofKind(facts, "ran");
  const title = ({ task, step }: { readonly task: string; readonly step: number }) => `step ${step} of ${task}`;
  const differing = [...grouped(ran, title)].filter(([, calls]) => new Set(calls.map(({ key }) => key)).size > 1);
  const shared = [...grouped(ran, ({ key }) => key)].filter(([, calls]) => new Set(calls.map(title)).size > 1);
  return [
    ...differing.map(([step]) => `${step} has several keys`),
    ...shared.map(([key, calls]) => `key ${key} belongs to ${[...new Set(calls.map(title))].join(" and ")}`),
  ];
}

/** Checks that all errors were planned or are explained by faults. */
function errors(facts: readonly Fact[], plans: ReadonlyMap<string, Plan>, storage: StorageName): string[] {
  return ofKind(facts, "error").flatMap(({ task, code, message }) => {
    const ends = plans.get(task)?.ends;
    const isPlanned =
      (ends === "failed" && message.includes(PLANNED_FAILURE)) || (ends === "poison" && code === "AttemptsError");
    return isPlanned || isExplained(storage, code, message)
      ? []
      : [`${task || "a process"} had the error ${code}: ${message}`];
  });
}

function isExplained(storage: StorageName, code: string, message: string): boolean {
  if (code === "LEASE_LOST" || code === "LEASE_HELD") return true;
  if (code !== "STORAGE_FAILED") return false;
  // PostgreSQL's server is killed and its connections are cut. On SQLite, a process stopped in a transaction blocks
  // others.
  return storage === "postgres" || (storage === "sqlite" && message.includes("was locked by another process"));
}

/** Counts facts for the report. */
export function countsOf(facts: readonly Fact[]): Record<string, number> {
  const released = new Set(ofKind(facts, "released").map(({ task, token }) => `${token} ${task}`));
  const claims = ofKind(facts, "claimed");
  const lost = ofKind(facts, "error").filter(({ code }) => code === "LEASE_LOST");
  const calls = [...grouped(ofKind(facts, "ran"), ({ key }) => key).values()];
  const sent = ofKind(facts, "eventSent");
  return {
    claims: claims.length,
    takeovers: claims.filter(({ task, token }) => token > 1 && !released.has(`${token - 1} ${task}`)).length,
    attempts: ofKind(facts, "started").length,
    "leases lost": lost.length,
    saves: ofKind(facts, "saved").length,
    "steps run": calls.length,
    "steps run twice": calls.filter(({ length }) => length > 1).length,
    ticks: ofKind(facts, "ticked").length,
    "records followed": ofKind(facts, "followed").length,
    "results awaited": ofKind(facts, "awaited").length,
    events: new Set(sent.map(({ id }) => id)).size,
    "events sent twice": sent.filter(({ copy }) => copy > 0).length,
  };
}

function ofKind<Kind extends Fact["is"]>(facts: readonly Fact[], kind: Kind) {
  return facts.filter((fact): fact is Extract<Fact, { is: Kind }> => fact.is === kind);
}

function grouped<Item, Key>(items: Iterable<Item>, by: (item: Item) => Key): Map<Key, Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) {
    const group = groups.get(by(item));
    if (group === undefined) groups.set(by(item), [item]);
    else group.push(item);
  }
  return groups;
}
