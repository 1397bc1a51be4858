import { appendFileSync } from "node:fs";
import { storageFailure } from "../../adapters/files/failure.js";

/** What happened to a checkpoint. */
export interface PhaseCheckpointEvent {
  readonly action: "checkpoint_created" | "checkpoint_completed";
  readonly checkpointId: string;
  readonly phase: string;
}

/**
 * Where events go. It takes the arguments of the spec's `logEvent`, so that function can be passed as it is. If it
 * throws or rejects, the logger is warned and the call still succeeds.
 */
export type LogPhaseCheckpointEvent = (type: "custom", event: PhaseCheckpointEvent) => unknown;

/** Appends each event to a file, as a line of JSON: `{"timestamp":"…","type":"custom","data":{"action":…}}`. */
export function appendEventsTo(path: string): LogPhaseCheckpointEvent {
  return (type, data) => {
    const line = `${JSON.stringify({ timestamp: new Date().toISOString(), type, data })}\n`;
    try {
      // One write at the end of the file: the lines of several processes don't mix.
      appendFileSync(path, line, { mode: 0o600, flush: true });
    } catch (error) {
      throw storageFailure(error, { doing: "log a checkpoint's event", path });
    }
  };
}
