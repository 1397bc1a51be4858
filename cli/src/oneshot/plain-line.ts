import type { OneshotEvent } from "waymark-runners/oneshot";
import { counted, secondsText } from "../words.js";

/** Returns the line that describes an event; `undefined` if the event has none. */
export function plainLine(event: OneshotEvent): string | undefined {
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
      return undefined;
  }
}
