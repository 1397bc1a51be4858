import { type StepHead, type StoredStep, textOfStep } from "../codec/run-body.js";
import { bytesOfText } from "./step-values.js";

/** A recorded step of the pass. */
export interface Entry extends StoredStep {
  readonly text: string;
  /** The function has come to it in this attempt. */
  isUsed: boolean;
}

type Key = Pick<StepHead, "name" | "occurrence" | "status">;

/** The recorded steps of a pass, in the order of their ends, with their texts. */
export class StepEntries {
  #entries: Map<string, Entry>;
  #bytes = 0;
  /** Grows by each step, so that a save doesn't join them all again. */
  #text = "";

  constructor(steps: readonly StoredStep[]) {
    this.#entries = new Map(steps.map((step) => [keyOf(step.head), entryOf(step, false)]));
    this.#join();
  }

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The texts of all steps, with commas between them. */
  get text(): string {
    return this.#text;
  }

  /** The same without results. */
  get textOfHeads(): string {
    return this.all()
      .map(({ head }) => textOfStep(head, undefined))
      .join(",");
  }

  all(): readonly Entry[] {
    return [...this.#entries.values()];
  }

  find(key: Key): Entry | undefined {
    return this.#entries.get(keyOf(key));
  }

  /** Adds one that the function has come to, in the place of the one that had only started. */
  add(step: StoredStep): Entry {
    const entry = entryOf(step, true);
    const key = keyOf(step.head);
    // It stands where it ended, not where it started.
    if (this.#entries.delete(key)) this.#join();
    this.#entries.set(key, entry);
    this.#bytes += bytesOfText(entry.text);
    this.#text += this.#text === "" ? entry.text : `,${entry.text}`;
    return entry;
  }

  forget(is: (entry: Entry) => boolean): void {
    for (const [key, entry] of this.#entries) if (is(entry)) this.#entries.delete(key);
    this.#join();
  }

  #join(): void {
    const texts = this.all().map(({ text }) => text);
    this.#bytes = texts.reduce((sum, text) => sum + bytesOfText(text), 0);
    this.#text = texts.join(",");
  }
}

function entryOf({ head, value }: StoredStep, isUsed: boolean): Entry {
  return { head, value, text: textOfStep(head, value), isUsed };
}

function keyOf({ name, occurrence, status }: Key): string {
  return `${status === "saved" ? "save" : "step"} ${occurrence} ${name}`;
}
