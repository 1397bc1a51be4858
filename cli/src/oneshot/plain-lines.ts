import type { OneshotEvent } from "waymark/oneshot";
import type { Output } from "../output.js";
import { printable } from "../printable.js";
import { counted, secondsText } from "../words.js";

/** Shows a run as lines, each written at once: for logs and pipes. */
export class PlainLines {
  readonly #output: Output;
  /** Keeps the lines in the order of their events. */
  #written: Promise<void> = Promise.resolve();

  constructor(output: Output) {
    this.#output = output;
  }

  show(event: OneshotEvent): void {
    const text = lineOf(event);
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

function lineOf(event: OneshotEvent): string | undefined {
  switch (event.type) {
    case "runStarted": {
      const { feature, resumed, workstreams } = event;
      const done = workstreams.filter(({ completed }) => completed).length;
      return `${feature}: ${resumed ? "resumed" : "started"}, ${done} of ${counted(workstreams.length, "workstream")} completed`;
    }
    case "workstreamStarted":
      return `${event.workstream}: started`;
    case "output":
      return `${event.workstream} | ${event.line}`;
    case "workstreamFinished":
      return `${event.workstream}: completed in ${secondsText(event.durationMs)}`;
    case "workstreamFailed":
      return `${event.workstream}: failed, ${event.reason}, after ${secondsText(event.durationMs)}`;
    case "workstreamStopped":
      return `${event.workstream}: stopped, and will be run again`;
    case "runEnded":
      return event.status === "paused" ? "Paused; continue with --resume" : undefined;
  }
}
