// Sends the events of a program in one process.
import { CheckpointError, type CheckpointManager, type Runtime } from "waymark";
import { parseRunKey, stepTitle } from "../../src/contract/run-record.js";
import { readRun } from "../../src/runs/run-view.js";
import type { Sending } from "./cases.js";
import type { EventValue } from "./execute.js";
import type { Seen, WaitPlace } from "./seen.js";
import { isLine } from "./seen-lives.js";

/** The sender of the events that don't answer a wait. */
const SENDER = "sender";
/** By then, a run has renewed its lease. */
const RENEWED_AFTER_MS = 11_000;

export class EventSender {
  /** A separate manager, because the manager of a life may be killed. */
  readonly #manager: CheckpointManager;
  readonly #runtime: Runtime;
  readonly #names: readonly string[];
  readonly #seen: Seen[];
  #sent = 0;
  #asked = 0;

  /** @param names - The names of the events for which the program waits. */
  constructor(manager: CheckpointManager, runtime: Runtime, names: readonly string[], seen: Seen[]) {
    this.#manager = manager;
    this.#runtime = runtime;
    this.#names = names;
    this.#seen = seen;
  }

  async send(task: string, { name, isBad, copies }: Sending): Promise<void> {
    const event = this.#names[name % this.#names.length];
    if (event === undefined) return;
    this.#sent += 1;
    const value: EventValue = { id: `sent-${this.#sent}`, isBad };
    this.#seen.push({ is: "sent", task, event, id: value.id, isBad });
    for (let copy = 0; copy < copies; copy++)
      await this.#manager.send(task, event, value, { id: value.id, by: SENDER, force: true });
    if (!isBad) this.#noteArrival(task, event, value.id);
  }

  /**
   * Answers a wait that has no time limit after a while; see {@link answerNow}.
   *
   * @param manager - Of the life.
   * @param isWorked - Whether a worker runs the task. Some waits last until it has suspended the run then.
   * @param isLate - Whether the lease is renewed before.
   */
  async answer(
    manager: CheckpointManager,
    task: string,
    wait: WaitPlace,
    generation: string,
    { isWorked, isLate }: { readonly isWorked: boolean; readonly isLate: boolean },
  ) {
    this.#asked += 1;
    const number = this.#asked;
    // Timed to arrive at about the same moment as a tick.
    const ms = isLate ? RENEWED_AFTER_MS : isWorked && number % 4 > 1 ? 249 + (number % 4) : number % 4;
    await new Promise<void>((resolve) => this.#runtime.setTimeout(resolve, ms));
    await this.answerNow(manager, task, wait, generation, isWorked);
  }

  /** Sends an event to a wait, sometimes after a bad event, or after an event for only this wait. */
  async answerNow(manager: CheckpointManager, task: string, wait: WaitPlace, generation: string, isWorked: boolean) {
    this.#sent += 1;
    const number = this.#sent;
    const turn = this.#seen.findLast((line) => line.is === "began" && line.task === task);
    const isOver = turn?.is !== "began" || turn.generation !== generation || turn.at !== wait.at;
    const key = number % 3 === 0 && !isOver ? await this.#findKey(task, wait) : undefined;
    const own = key === undefined ? [] : [{ id: `answer-${number}-own`, isBad: false, key }];
    const bad = number % 4 === 0 ? [{ id: `answer-${number}-bad`, isBad: true, key: undefined }] : [];
    for (const one of [...own, ...bad, { id: `answer-${number}`, isBad: false, key: undefined }]) {
      const { id, isBad } = one;
      const value: EventValue = { id, isBad };
      const place = one.key !== undefined && { wait: { generation, at: wait.at, title: wait.title } };
      this.#seen.push({ is: "sent", task, event: wait.name, id, isBad, ...place });
      const by = isWorked ? this.#manager : manager;
      const send = () => by.send(task, wait.name, value, { id, wait: one.key });
      // A failed write is tried once more. The life may also have ended, so that its manager is closed.
      const stored = await send()
        .catch(send)
        .catch((error: unknown) => {
          if (!(error instanceof CheckpointError)) this.#seen.push({ is: "surprised", task, error: String(error) });
        });
      if (stored !== undefined && one.key !== undefined) await this.#answerTwice(by, task, wait.name, one.key);
      if (stored !== undefined && !isBad && one.key === undefined) this.#noteArrival(task, wait.name, id);
    }
  }

  /** Sends another event to a wait that has been answered, which must be refused. */
  async #answerTwice(manager: CheckpointManager, task: string, name: string, wait: string): Promise<void> {
    const answered = manager.send(task, name, { id: "twice", isBad: false }, { id: `twice-${this.#sent}`, wait });
    const end = await answered.then(
      () => "stored",
      () => undefined,
    );
    if (end === "stored") this.#seen.push({ is: "surprised", task, error: `the wait ${wait} was answered twice` });
  }

  #noteArrival(task: string, event: string, id: string): void {
    this.#seen.push({ is: "arrived", task, event, id, nowMs: this.#runtime.now() });
  }

  /** Finds events that are listed with another sender. */
  async findSenderViolations(task: string): Promise<readonly string[]> {
    const events = await this.#manager.events(task);
    const wrong = events.filter(({ id, by }) => by !== (id.startsWith("sent-") ? SENDER : undefined));
    return wrong.map(({ id, by }) => `${task}: event ${id} is listed as sent by ${by}`);
  }

  /** Finds events that are listed as if their wait were open although it has ended. */
  async findOpenViolations(task: string): Promise<readonly string[]> {
    // The answer of a wait isn't recorded after the end of the function. A wait whose signal's error ends the run is
    // open again.
    const ended = new Set<string>();
    const got = new Set<string>();
    for (const line of this.#seen) {
      if (!isLine(line) || line.task !== task) continue;
      const turn = `${line.life} ${line.at}`;
      if (line.is === "threw" || line.is === "returned" || line.is === "next") ended.add(turn);
      if (line.is === "got" && !line.isError && !ended.has(turn))
        got.add(`${line.generation} ${line.at} ${line.title}`);
    }
    // Dropped results and changed inputs open waits again.
    if (this.#seen.some((line) => line.is === "dropped" || (line.is === "body" && line.input !== undefined))) return [];
    const events = await this.#manager.events(task);
    const open = events.filter(({ id, wait }) => {
      const sent = this.#seen.find((line) => line.is === "sent" && line.id === id);
      const place = sent?.is === "sent" ? sent.wait : undefined;
      return wait?.isOpen && place && got.has(`${place.generation} ${place.at} ${place.title}`);
    });
    return open.map(({ id }) => `${task}: the wait of event ${id} is listed as open, and has ended`);
  }

  /** Finds events that are listed as received although no wait has recorded a receipt. */
  async findReceiptViolations(task: string): Promise<readonly string[]> {
    const lines = this.#seen.filter(isLine).filter((line) => line.task === task);
    const newest = await this.#manager.latest(task);
    const run = newest && (await readRun(this.#manager, newest));
    // A receipt of an earlier generation counts even if no function has got the event.
    if (run === undefined || lines.some(({ generation }) => generation !== run.generation)) return [];
    const got = new Set(lines.flatMap((line) => (line.is === "got" ? line.value : [])));
    const recorded = new Set(
      run.steps.flatMap(({ status, event }) => (status === "completed" && event ? event.id : [])),
    );
    const events = await this.#manager.events(task);
    const lost = events.filter(
      ({ id, status }) => status === "received" && !got.has(`event ${id}`) && !recorded.has(id),
    );
    return lost.map(({ id }) => `${task}: event ${id} is listed as received, but no wait has received it`);
  }

  /** Returns the key of the newest wait with this title, if its start is recorded. */
  async #findKey(task: string, { name, title }: WaitPlace): Promise<string | undefined> {
    for await (const record of this.#manager.records(task, { kinds: ["mark"], order: "newest" })) {
      const { occurrence } = ("recordKey" in record && parseRunKey(record)) || {};
      if (!("name" in record) || record.name !== name || occurrence === undefined) continue;
      if (stepTitle(name, occurrence) !== title) continue;
      const { value } = record;
      return typeof value === "object" && value !== null && "key" in value ? String(value.key) : undefined;
    }
    return undefined;
  }
}
