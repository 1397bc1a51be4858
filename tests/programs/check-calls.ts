// Checks the promises of single calls: the key of a step, the limit of a wait, and the event that came in time
// (docs/runs.md, docs/waiting.md).
import { MESSAGE } from "./program.js";
import { isStop, type Seen } from "./seen.js";

export function callViolations(seen: readonly Seen[]): readonly string[] {
  return [...keyViolations(seen), ...limitViolations(seen), ...lateViolations(seen)];
}

/** Checks that all attempts of a step have the same key, and that no other step has it. */
function keyViolations(seen: readonly Seen[]): readonly string[] {
  const keys = new Map<string, string>();
  const steps = new Map<string, string>();
  return seen.flatMap((line) => {
    if (line.is !== "body") return [];
    const step = `${line.task}, generation ${line.generation}, turn ${line.at}: "${line.title}", input ${line.input}`;
    const key = keys.get(step) ?? line.key;
    const other = steps.get(line.key) ?? step;
    keys.set(step, key);
    steps.set(line.key, other);
    if (key !== line.key) return [`${step} has the key ${line.key}, and had ${key} before`];
    return other === step ? [] : [`${step} has the key of ${other}`];
  });
}

/** Checks that waits keep the limits and sleeps the dates with which they began. */
function limitViolations(seen: readonly Seen[]): readonly string[] {
  const violations: string[] = [];
  const begun = new Map<string, { readonly turn: number; readonly until: string }>();
  const inputs = new Set(seen.flatMap((line) => (line.is === "body" ? (line.input ?? []) : [])));
  for (const line of seen) {
    // Dropped results and changed inputs also drop the starts of waits.
    if (line.is === "dropped" || inputs.size > 1) begun.clear();
    if (line.is !== "waiting" && line.is !== "got") continue;
    const wait = `${line.task}, generation ${line.generation}: "${line.title}"`;
    // If a wait that has ended begins again, its end was dropped.
    if (line.is === "got") begun.delete(wait);
    else {
      const { turn, until } = line;
      const before = begun.get(wait);
      if (before?.turn === turn && before.until !== until)
        violations.push(`${wait} waits until ${until}, and until ${before.until} before`);
      begun.set(wait, line);
    }
  }
  return violations;
}

type Called = Extract<Seen, { readonly is: "called" }>;

/** The current life of a task. */
interface Now {
  readonly life: string;
  /** The open waits for events that have no limit. */
  readonly open: Map<string, Called>;
  /** For each sleep that hasn't ended: its date, and the waits that were open when it began. */
  readonly asleep: Map<string, { readonly untilMs: number; readonly beside: readonly Called[] }>;
  /** The events that have come but haven't been received. */
  readonly arrived: Map<string, Extract<Seen, { readonly is: "arrived" }>>;
}

/** Checks that an event ends its wait before a simultaneous sleep ends, if the event comes before the sleep is over. */
function lateViolations(seen: readonly Seen[]): readonly string[] {
  const now = new Map<string, Now>();
  return seen.flatMap((line, at) => {
    if (line.is === "began")
      now.set(line.task, { life: line.life, open: new Map(), asleep: new Map(), arrived: new Map() });
    const own = "task" in line ? now.get(line.task) : undefined;
    if (own === undefined || ("life" in line && line.life !== own.life)) return [];
    // Once the run has stopped, calls may or may not end.
    if (isStop(line)) now.delete(line.task);
    if (line.is === "called" && isEventTitle(line.title)) own.open.set(line.title, line);
    if (line.is === "arrived") own.arrived.set(line.id, line);
    if (line.is === "waiting") {
      const sleep = { untilMs: Date.parse(line.until), beside: [...own.open.values()] };
      if (isEventTitle(line.title)) own.open.delete(line.title);
      else own.asleep.set(line.title, sleep);
    }
    if (line.is !== "got") return [];
    own.open.delete(line.title);
    own.arrived.delete(line.value.replace("event ", ""));
    const { untilMs = 0, beside = [] } = own.asleep.get(line.title) ?? {};
    // A wait that its signal has ended returns its event, which is pending again.
    const open = beside.filter((wait) => own.open.get(wait.title) === wait && !isAborted(wait, seen.slice(at)));
    return open.flatMap(({ task, title }) =>
      [...own.arrived.values()]
        .filter(({ event, nowMs }) => event === title.replace(/ \d+$/, "") && nowMs < untilMs)
        .map(({ id }) => `${task}: "${line.title}" ended before "${title}", whose event ${id} had come`),
    );
  });
}

function isAborted({ task, life, title }: Called, later: readonly Seen[]): boolean {
  return later.some(
    (line) => line.is === "got" && line.task === task && line.life === life && line.title === title && line.isError,
  );
}

function isEventTitle(title: string): boolean {
  return title.startsWith("event ") || title.startsWith(MESSAGE);
}
