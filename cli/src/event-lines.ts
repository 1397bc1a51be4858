import type { Logger } from "waymark";
import type { Output } from "./output.js";
import { plainJson } from "./plain-json.js";
import { jsonText, printable } from "./printable.js";

/** Shows events as lines, for logs, pipes and programs. Each line is written at once. */
export class EventLines<Event> {
  readonly #output: Output;
  readonly #textOf: (event: Event) => string | undefined;
  /** Keeps the lines in the order of their events. */
  #written: Promise<void> = Promise.resolve();

  /** @param textOf - Returns the line of an event; `undefined` for none. */
  constructor(output: Output, textOf: (event: Event) => string | undefined) {
    this.#output = output;
    this.#textOf = textOf;
  }

  show(event: Event): void {
    const text = this.#textOf(event);
    if (text === undefined) return;
    this.#written = this.#written
      .then(() => this.#output.line(printable(text)))
      .then(() => this.#output.flush())
      // The reader is gone, or the disk is full. The run continues; the last flush reports the failure.
      .catch(() => undefined);
  }

  end(): Promise<void> {
    return this.#written;
  }
}

/** The help text of --json. */
export const JSON_HELP = `
With --json, each line of standard output is an event, such as
  {"type":"output","stream":"stdout",…}
and the last line shows how the run ended:
  {"type":"ended","status":"paused","resume":"waymark …"}
The status is completed, failed, paused, killed or error. The README of
waymark-cli describes every event.`;

/**
 * Writes events as lines of JSON, for programs. A log entry of a run is an event too, with its text and its details.
 * The details may replace `type`.
 */
export class JsonEvents extends EventLines<object> {
  readonly logger: Logger;

  constructor(output: Output) {
    super(output, (event) => jsonText(plainJson(event)));
    const log = (details: object, text: string) => this.show({ type: "message", text, ...details });
    this.logger = { debug: log, info: log, warn: log, error: log };
  }
}
