// What single calls promise: the key of a step, the limit of a wait, and the event that came in time (docs/runs.md,
// docs/waiting.md).
import { MESSAGE } from "./program.js";
import { isStop, type Seen } from "./seen.js";

export function callViolations(seen: readonly Seen[]): readonly string[] {
  return [...keyViolations(seen), ...limitViolations(seen), ...lateViolations(seen)];
}

/** All attempts of a step have one key, and no other step has it. */
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

/** A wait's limit and a sleep's date are those with which it began. */
function limitViolations(seen: readonly Seen[]): readonly string[] {
  const violations: string[] = [];
  const begun = new Map<string, { readonly turn: number; readonly until: string }>();
  const inputs = new Set(seen.flatMap((line) => (line.is === "body" ? (line.input ?? []) : [])));
  for (const line of seen) {
    // These drop the starts of waits, too.
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

/** One life of a task, until now. */
interface Now {
  readonly life: string;
  /** The waits for events that are open, without those that have a limit. */
  readonly open: Map<string, Called>;
  /** For each sleep that waits: its date, and the waits that were open when it began. */
  readonly asleep: Map<string, { readonly untilMs: number; readonly beside: readonly Called[] }>;
  /** The events that came, and that nothing has received. */
  readonly arrived: Map<string, Extract<Seen, { readonly is: "arrived" }>>;
}

/** An event that comes before a sleep beside its wait is over ends the wait first. */
function lateViolations(seen: readonly Seen[]): readonly string[] {
  const now = new Map<string, Now>();
  return seen.flatMap((line, at) => {
    if (line.is === "began")
      now.set(line.task, { life: line.life, open: new Map(), asleep: new Map(), arrived: new Map() });
    const own = "task" in line ? now.get(line.task) : undefined;
    if (own === undefined || ("life" in line && line.life !== own.life)) return [];
    // Once the run has stopped, a call may end or not.
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
    // If its signal has ended the wait, it has given the event back.
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
