import type { OneshotEvent } from "waymark-runners/oneshot";
import { EventLines } from "../event-lines.js";
import type { Output } from "../output.js";
import { LiveList } from "./live-list.js";
import { plainLine } from "./plain-line.js";

/** Rows that a list leaves to the command line and to what comes after it. */
const SPARE_ROWS = 2;

/** A run on a terminal: a list that changes in place, or lines where the plan has more workstreams than the screen rows. */
export class TerminalView {
  readonly #output: Output;
  #view: LiveList | EventLines<OneshotEvent> | undefined;

  constructor(output: Output) {
    this.#output = output;
  }

  /** The list, if that is what is shown. */
  get live(): LiveList | undefined {
    return this.#view instanceof LiveList ? this.#view : undefined;
  }

  show(event: OneshotEvent): void {
    if (event.type === "runStarted") {
      const isFitting = event.workstreams.length <= this.#output.rows - SPARE_ROWS;
      this.#view = isFitting ? new LiveList(this.#output.colors) : new EventLines(this.#output, plainLine);
    }
    this.#view?.show(event);
  }

  async end(): Promise<void> {
    await this.#view?.end();
  }
}
