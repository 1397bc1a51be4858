// Checks that each event is received once and isn't lost (docs/waiting.md).
import type { Seen } from "./seen.js";
import { originOf } from "./seen-lives.js";

/** The place where a function got an event. */
interface Receipt {
  /** The turn and the wait. */
  readonly place: string;
  readonly generation: string;
  /** `undefined` if a fork or a rewind copied the receipt. */
  readonly code: number | undefined;
}

export class EventsCheck {
  readonly #report: (violation: string) => void;
  readonly #sent = new Map<string, Extract<Seen, { readonly is: "sent" }>>();
  /** The receipts by task and event. A receipt is `undefined` once its event is pending again. */
  readonly #receipts = new Map<string, Map<string, Receipt | undefined>>();
  /** The tasks that were forked or rewound without a note of the copied receipts. */
  readonly #loose = new Set<string>();
  /** Each task's waits that the last life to call them left without an answer. A killed life may have a receipt. */
  readonly #open = new Map<string, Map<string, string>>();
  /** The tasks that were rewound. */
  readonly #rewound = new Set<string>();
  /** The events that were refused in a task with forks. The forks don't have the refusals. */
  readonly #refused = new Set<string>();

  constructor(seen: readonly Seen[], report: (violation: string) => void) {
    this.#report = report;
    for (const line of seen) {
      if (line.is === "sent") this.#sent.set(line.id, line);
      if (line.is === "forked") this.#loose.add(line.task);
    }
  }

  /** Whether the task may have what nobody has noted. */
  isLoose(task: string): boolean {
    return this.#loose.has(task);
  }

  receive(task: string, id: string, receipt: Receipt): void {
    const where = `${task}, generation ${receipt.generation}: event ${id}`;
    const sent = this.#sent.get(id);
    if (sent === undefined) this.#report(`${where} was received by "${receipt.place}", and never sent`);
    if (sent?.wait && `${sent.wait.at} ${sent.wait.title}` !== receipt.place)
      this.#report(
        `${where} was received by "${receipt.place}", and sent to "${sent.wait.title}" of turn ${sent.wait.at}`,
      );
    const other = this.#of(task).get(id);
    this.#of(task).set(id, receipt);
    if (other === undefined) return;
    const isSameRun = other.generation === receipt.generation;
    const isElsewhere = other.place !== receipt.place && (other.code ?? receipt.code) === receipt.code;
    // After a rewind or a fork, the wait may get the copied receipt. After a change of the code, the events of removed
    // waits are pending again.
    const isBranch = this.#rewound.has(task) || other.code === undefined;
    if (this.isLoose(task) ? isSameRun && isElsewhere : isElsewhere || !(isSameRun || isBranch))
      this.#report(
        `${where} was received by "${receipt.place}", and by "${other.place}" of ${other.generation} before`,
      );
  }

  /** Ends the doubt whether the event is pending again. */
  receiveAgain(task: string, id: string, receipt: Receipt): void {
    if (!this.#of(task).has(id)) this.#of(task).set(id, receipt);
  }

  /** Makes the event pending again, unless another wait has received it since. */
  giveBack(task: string, id: string, { place, generation }: Pick<Receipt, "place" | "generation">): void {
    const receipt = this.#of(task).get(id);
    if (receipt === undefined || (receipt.place === place && receipt.generation === generation))
      this.#of(task).set(id, undefined);
  }

  /** Notes a wait without an answer. It may have a recorded receipt, even of an event that is pending again. */
  leaveOpen(task: string, place: string, title: string): void {
    const event = title.replace(/ \d+$/, "");
    const open = this.#open.get(task) ?? new Map<string, string>();
    this.#open.set(task, open.set(place, event));
    for (const [id, receipt] of this.#of(task))
      if (receipt === undefined && this.#sent.get(id)?.event === event) this.doubt(task, id);
  }

  /** Notes that the wait has an answer. */
  close(task: string, place: string): void {
    this.#open.get(task)?.delete(place);
  }

  /** Notes that the event may be pending again. */
  doubt(task: string, id: string): void {
    this.#of(task).delete(id);
  }

  /** Notes a branch. A fork has the receipts of its origin, and a branch gets the receipts of its turn again. */
  branch({ task, from, generation, at, carried, undecided }: Extract<Seen, { readonly is: "branched" }>): void {
    if (task === from) this.#rewound.add(task);
    else for (const [id, receipt] of this.#of(from)) this.#of(task).set(id, receipt && { ...receipt, code: undefined });
    for (const [title, value] of carried)
      if (isEvent(value)) this.#of(task).set(idOf(value), { place: `${at} ${title}`, generation, code: undefined });
    for (const id of undecided) this.doubt(task, id);
  }

  /** @param isPlain - Whether the task had only one generation and one version of the code. */
  assertListed({ task, id, status }: Extract<Seen, { readonly is: "event" }>, isPlain: boolean): void {
    if (task !== originOf(task) && this.#refused.has(id)) return;
    if (status === "refused") {
      this.#refused.add(id);
      if (!this.#sent.get(id)?.isBad) this.#report(`${task}: event ${id} was refused, and isn't bad`);
      return;
    }
    const receipts = this.#of(task);
    const isGot = receipts.get(id) !== undefined;
    if (this.isLoose(task)) return;
    const event = this.#sent.get(id)?.event;
    const isOpen = [...(this.#open.get(task)?.values() ?? [])].some((name) => name === event);
    if (status === "received" && isOpen) return;
    // After a restart, a fork or a rewind, a recorded receipt counts, even if no function got the event.
    if (isGot !== (status === "received") && (isPlain || receipts.has(id)))
      this.#report(`${task}: event ${id} is ${status}, and was ${isGot ? "" : "not "}received`);
  }

  #of(task: string): Map<string, Receipt | undefined> {
    const receipts = this.#receipts.get(task) ?? new Map();
    this.#receipts.set(task, receipts);
    return receipts;
  }
}

export function isEvent(answer: string): boolean {
  return answer.startsWith("event ");
}

/** Returns the id of an answer's event. */
export function idOf(answer: string): string {
  return answer.slice("event ".length);
}
