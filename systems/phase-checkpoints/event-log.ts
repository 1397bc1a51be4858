import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { nanoid } from "nanoid";
import { storageFailure } from "../../adapters/files/failure.js";
import { makeFolders } from "../../adapters/files/file-io.js";

/** An event of a checkpoint. */
export interface PhaseCheckpointEvent {
  readonly action: "checkpoint_created" | "checkpoint_completed";
  readonly checkpointId: string;
  readonly phase: string;
}

/**
 * Receives events. It takes the same arguments as the spec's `logEvent`, so `logEvent` itself can be passed. If it
 * throws or rejects, a warning is logged and the call still succeeds.
 */
export type LogPhaseCheckpointEvent = (type: "custom", event: PhaseCheckpointEvent) => unknown;

/** Appends each event to a file, as a line of JSON: `{"timestamp":"…","type":"custom","data":{"action":…}}`. */
export function appendEventsTo(path: string): LogPhaseCheckpointEvent {
  return (type, data) => append(path, { timestamp: new Date().toISOString(), type, data });
}

/**
 * Appends each event to its day's file in the event log of the spec's program, in that program's form:
 * `{"id":"…","timestamp":"…","sessionId":"…","type":"custom","data":{"action":…}}`.
 *
 * @param folder - An absolute path. The first event creates the folder.
 */
export function appendEventsIn(folder: string, sessionId = "unknown"): LogPhaseCheckpointEvent {
  return async (type, data) => {
    const timestamp = new Date().toISOString();
    const path = join(folder, `events-${timestamp.slice(0, 10)}.jsonl`);
    try {
      await makeFolders(folder);
    } catch (error) {
      throw storageFailure(error, { doing: "make the folder of the event log", path: folder });
    }
    append(path, { id: nanoid(), timestamp, sessionId, type, data });
  };
}

function append(path: string, event: object): void {
  try {
    // Each event is one write at the end of the file, so the lines of several processes don't mix.
    appendFileSync(path, `${JSON.stringify(event)}\n`, { mode: 0o600, flush: true });
  } catch (error) {
    throw storageFailure(error, { doing: "log a checkpoint's event", path });
  }
}
