import type { OneshotEvent } from "waymark-runners/oneshot";
import { EventLines } from "../event-lines.js";
import type { Output } from "../output.js";
import { LiveList } from "./live-list.js";
import { plainLine } from "./plain-line.js";

/** Rows left free for the command line and later output. */
const SPARE_ROWS = 2;

/**
 * Shows a run on a terminal as a list that changes in place. If the plan has more workstreams than the screen has rows,
 * it shows lines instead.
 */
export class TerminalView {
  readonly #output: Output;
  #view: LiveList | EventLines<OneshotEvent> | undefined;

  constructor(output: Output) {
    this.#output = output;
  }

  /** The list; `undefined` if lines are shown. */
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
