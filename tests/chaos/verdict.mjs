// @ts-check
// What a chaos run must not have done, found by comparing the plan, the ledger and the store.
import { PLANNED_FAILURE, STEPS } from "./plan.mjs";

/** @typedef {import("./plan.mjs").Plan} Plan */
/** @typedef {import("./ledger.mjs").Fact} Fact */

/**
 * A task as it is stored at the end.
 *
 * @typedef {{
 *   taskId: string, status: string, error?: { name: string, message: string } | undefined, result?: unknown,
 *   saves: readonly { sequence: number, token: number }[], signals: readonly { id: string, status: string }[],
 * }} Stored
 */

/** The errors that faults explain. */
const EXPECTED = new Set(["LEASE_LOST", "LEASE_HELD", "STORAGE_FAILED"]);

/**
 * @param {readonly Plan[]} plans
 * @param {readonly Fact[]} facts
 * @param {ReadonlyMap<string, Stored>} stored - By task id.
 * @returns {string[]} The violations; empty if there is none.
 */
export function violationsOf(plans, facts, stored) {
  const byTask = grouped(facts, ({ task }) => task);
  const all = plans.map((plan) => ({ plan, facts: byTask.get(plan.taskId) ?? [], stored: stored.get(plan.taskId) }));
  return [
    ...all.flatMap((task) => ended(task)),
    ...all.flatMap(({ plan, facts: own, stored: at }) => results(plan.taskId, own, at)),
    ...all.flatMap(({ plan, facts: own }) => onces(plan, own)),
    ...all.flatMap(({ plan, facts: own, stored: at }) => fencing(plan.taskId, own, at)),
    ...all.flatMap((task) => signals(task)),
    ...all.flatMap(({ plan, facts: own }) => sleeps(plan.taskId, own)),
    ...keys(facts),
    ...errors(facts, new Map(plans.map((plan) => [plan.taskId, plan]))),
  ];
}

/** @typedef {{ plan: Plan, facts: readonly Fact[], stored: Stored | undefined }} Task */

/** @param {Task} task */
function ended({ plan: { taskId, ends }, stored }) {
  if (stored === undefined) return [`${taskId} is not stored`];
  const { status, error } = stored;
  const how = `${taskId} is ${status}${error === undefined ? "" : ` (${error.name}: ${error.message})`}`;
  if (ends === "completed") return status === "completed" ? [] : [`${how}, and should be completed`];
  const isPlanned = ends === "failed" ? error?.message === PLANNED_FAILURE : error?.name === "AttemptsError";
  return status === "failed" && isPlanned ? [] : [`${how}, and should be ${ends}`];
}

/**
 * Each step has one result: all attempts saw the same one, it is one that a call of the step made, and it is in the run's
 * result.
 *
 * @param {string} taskId
 * @param {readonly Fact[]} facts
 * @param {Stored | undefined} stored
 */
function results(taskId, facts, stored) {
  const made = grouped(ofKind(facts, "ran"), ({ step }) => step);
  const got = grouped(ofKind(facts, "got"), ({ step }) => step);
  const result = Array.isArray(stored?.result) ? stored.result : [];
  const violations = [...got].flatMap(([step, seen]) => {
    const [value, ...others] = new Set(seen.map((one) => one.value));
    const title = `step ${step} of ${taskId}`;
    if (others.length > 0) return [`${title} has several results: ${[value, ...others].join(", ")}`];
    const calls = made.get(step);
    if (calls !== undefined && value !== "interrupted" && !calls.some((call) => call.value === value)) {
      return [`${title} has the result ${value}, which no call of it made`];
    }
    if (stored?.status === "completed" && result[step] !== value) {
      return [`${title} gave ${value}, and ${result[step]} is recorded`];
    }
    return [];
  });
  if (stored?.status !== "completed") return violations;
  const missing = Array.from({ length: STEPS }, (_, step) => step).filter((step) => !got.has(step));
  const isWhole = result.length === STEPS && missing.length === 0;
  return isWhole
    ? violations
    : [...violations, `${taskId} has ${result.length} results; missing: ${missing.join(", ")}`];
}

/** An `atMostOnce` step never ran twice. @param {Plan} plan @param {readonly Fact[]} facts */
function onces({ taskId, steps }, facts) {
  const made = grouped(ofKind(facts, "ran"), ({ step }) => step);
  return steps.flatMap(({ kind }, step) => {
    const calls = made.get(step)?.length ?? 0;
    return kind === "once" && calls > 1 ? [`step ${step} of ${taskId} ran ${calls} times, and has atMostOnce`] : [];
  });
}

/**
 * No write got in under an old token. The tokens of the saves only grow, in the order of the sequences, and no save succeeded
 * that was sent after a higher token had been given.
 *
 * @param {string} taskId
 * @param {readonly Fact[]} facts
 * @param {Stored | undefined} stored
 */
function fencing(taskId, facts, stored) {
  const violations = [];
  const saved = ofKind(facts, "saved");
  for (const [where, saves] of /** @type {const} */ ([
    ["store", stored?.saves ?? []],
    ["ledger", saved],
  ])) {
    let last = 0;
    for (const { sequence, token } of [...saves].sort((a, b) => a.sequence - b.sequence)) {
      if (token < last) violations.push(`${taskId}: sequence ${sequence} has token ${token} after ${last} (${where})`);
      last = Math.max(last, token);
    }
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
  const given = new Set();
  for (const { token } of claims) {
    if (given.has(token)) violations.push(`${taskId}: token ${token} was given twice`);
    given.add(token);
  }
  return violations;
}

/** Each signal was received once, by the task that it was sent to. @param {Task} task */
function signals({ plan, facts, stored }) {
  const violations = [];
  const received = grouped(
    ofKind(facts, "got").filter(({ step }) => plan.steps[step]?.kind === "wait"),
    ({ value }) => value,
  );
  for (const [id, seen] of received) {
    const waits = new Set(seen.map(({ step }) => step));
    if (waits.size > 1) violations.push(`${plan.taskId}: signal ${id} was received by steps ${[...waits].join(", ")}`);
    if (!plan.signals.some((signal) => signal.id === id)) {
      violations.push(`${plan.taskId}: signal ${id} was received, and never sent`);
    }
  }
  const ids = stored?.signals.map(({ id }) => id) ?? [];
  if (new Set(ids).size < ids.length) violations.push(`${plan.taskId}: signals are stored twice: ${ids.join(", ")}`);
  if (stored?.status !== "completed") return violations;
  for (const { id } of plan.signals) {
    const at = stored.signals.find((signal) => signal.id === id);
    if (!received.has(id)) violations.push(`${plan.taskId}: signal ${id} was never received`);
    else if (at?.status !== "received") {
      violations.push(`${plan.taskId}: signal ${id} was received, and is stored as ${at?.status ?? "missing"}`);
    }
  }
  return violations;
}

/** No sleep ended before its time. @param {string} taskId @param {readonly Fact[]} facts */
function sleeps(taskId, facts) {
  const asked = grouped(ofKind(facts, "asked"), ({ step }) => step);
  return ofKind(facts, "got").flatMap(({ step, nowMs }) => {
    const untilMs = Math.min(...(asked.get(step) ?? []).map((one) => one.untilMs));
    return Number.isFinite(untilMs) && nowMs < untilMs
      ? [`step ${step} of ${taskId} slept ${untilMs - nowMs} ms too little`]
      : [];
  });
}

/** A step's key is the same at each call, and no other step has it. @param {readonly Fact[]} facts */
function keys(facts) {
  const ran = ofKind(facts, "ran");
  const title = (/** @type {{ task: string, step: number }} */ { task, step }) => `step ${step} of ${task}`;
  const differing = [...grouped(ran, title)].filter(([, calls]) => new Set(calls.map(({ key }) => key)).size > 1);
  const shared = [...grouped(ran, ({ key }) => key)].filter(([, calls]) => new Set(calls.map(title)).size > 1);
  return [
    ...differing.map(([step]) => `${step} has several keys`),
    ...shared.map(([key, calls]) => `key ${key} belongs to ${[...new Set(calls.map(title))].join(" and ")}`),
  ];
}

/**
 * Only the planned errors, and those that faults explain.
 *
 * @param {readonly Fact[]} facts
 * @param {ReadonlyMap<string, Plan>} plans
 */
function errors(facts, plans) {
  return ofKind(facts, "error").flatMap(({ task, code, message }) => {
    const ends = plans.get(task)?.ends;
    const isPlanned =
      (ends === "failed" && message === PLANNED_FAILURE) || (ends === "poison" && code === "AttemptsError");
    return isPlanned || EXPECTED.has(code) ? [] : [`${task || "a process"} had the error ${code}: ${message}`];
  });
}

/**
 * Counts for people.
 *
 * @param {readonly Fact[]} facts
 */
export function countsOf(facts) {
  const released = new Set(ofKind(facts, "released").map(({ task, token }) => `${token} ${task}`));
  const claims = ofKind(facts, "claimed");
  const lost = ofKind(facts, "error").filter(({ code }) => code === "LEASE_LOST");
  const calls = [...grouped(ofKind(facts, "ran"), ({ key }) => key).values()];
  const sent = ofKind(facts, "signalled");
  return {
    claims: claims.length,
    takeovers: claims.filter(({ task, token }) => token > 1 && !released.has(`${token - 1} ${task}`)).length,
    attempts: ofKind(facts, "started").length,
    "leases lost": lost.length,
    saves: ofKind(facts, "saved").length,
    "steps run": calls.length,
    "steps run twice": calls.filter(({ length }) => length > 1).length,
    signals: new Set(sent.map(({ id }) => id)).size,
    "signals sent twice": sent.filter(({ copy }) => copy > 0).length,
  };
}

/**
 * @template {Fact["is"]} Kind
 * @param {readonly Fact[]} facts
 * @param {Kind} kind
 */
function ofKind(facts, kind) {
  return facts.filter((fact) => /** @type {(fact: Fact) => fact is Extract<Fact, { is: Kind }>} */ (fact.is === kind));
}

/**
 * @template Item, Key
 * @param {Iterable<Item>} items
 * @param {(item: Item) => Key} by
 * @returns {Map<Key, Item[]>}
 */
function grouped(items, by) {
  /** @type {Map<Key, Item[]>} */
  const groups = new Map();
  for (const item of items) {
    const group = groups.get(by(item));
    if (group === undefined) groups.set(by(item), [item]);
    else group.push(item);
  }
  return groups;
}
