import type { Logger } from "waymark";
import type { Output } from "./output.js";
import { plainJson } from "./plain-json.js";
import { jsonText, printable } from "./printable.js";

/** Shows events as lines, each written at once: for logs, pipes and programs. */
export class EventLines<Event> {
  readonly #output: Output;
  readonly #textOf: (event: Event) => string | undefined;
  /** Keeps the lines in the order of their events. */
  #written: Promise<void> = Promise.resolve();

  /** @param textOf - The line of an event; `undefined` for none. */
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
      // The reader is gone, or the disk is full. The run continues, and the last flush reports it.
      .catch(() => undefined);
  }

  end(): Promise<void> {
    return this.#written;
  }
}

/** The text on --json in `--help`. */
export const JSON_HELP = `
With --json, each line of standard output is an event, such as
  {"type":"output","stream":"stdout",…}
and the last line says how the run ended:
  {"type":"ended","status":"paused","resume":"waymark …"}
The status is completed, failed, paused, killed or error. The README of
waymark-cli describes every event.`;

/**
 * Events as lines of JSON, for programs. A run's log entries are events too: the text, and its details, which may have
 * a `type` of their own.
 */
export class JsonEvents extends EventLines<object> {
  readonly logger: Logger;

  constructor(output: Output) {
    super(output, (event) => jsonText(plainJson(event)));
    const log = (details: object, text: string) => this.show({ type: "message", text, ...details });
    this.logger = { debug: log, info: log, warn: log, error: log };
  }
}
