import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { dirname } from "node:path";
import { assureOwner, makeFolder, writeDurably } from "../../adapters/files/durable-write.js";
import { storageFailure } from "../../adapters/files/storage-failure.js";

/** What happened to a checkpoint. */
export interface PhaseCheckpointEvent {
  readonly action: "checkpoint_created" | "checkpoint_completed";
  readonly checkpointId: string;
  readonly phase: string;
}

/**
 * Where events go. It is called as the spec's `logEvent` is, so that one fits in as it is. What it throws or rejects
 * with goes to the logger, and fails nothing else.
 */
export type LogPhaseCheckpointEvent = (type: "custom", event: PhaseCheckpointEvent) => unknown;

/**
 * Appends each event to a file, as a line of JSON: `{"timestamp":"…","type":"custom","data":{"action":…}}`.
 */
export function appendEventsTo(path: string): LogPhaseCheckpointEvent {
  return async (type, data) => {
    const line = `${JSON.stringify({ timestamp: new Date().toISOString(), type, data })}\n`;
    try {
      await append(path, line);
    } catch (error) {
      throw storageFailure(error, { doing: "log a checkpoint's event", path });
    }
  };
}

// A planted link isn't followed. Windows doesn't know the flag.
const APPEND_FLAGS = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
const LINE_FEED = 0x0a;

/** In one write at the file's end, so that lines of several processes don't mix. */
async function append(path: string, line: string): Promise<void> {
  await makeFolder(dirname(path));
  const file = openSync(path, APPEND_FLAGS, 0o600);
  let separator: string;
  try {
    assureOwner(file);
    separator = isCutShort(file) ? "\n" : "";
  } catch (error) {
    closeSync(file);
    throw error;
  }
  await writeDurably(file, Buffer.from(separator + line));
}

/** Whether whoever wrote the last line was killed in the middle of it. */
function isCutShort(file: number): boolean {
  const { size } = fstatSync(file);
  if (size === 0) return false;
  const last = Buffer.alloc(1);
  readSync(file, last, 0, 1, size - 1);
  return last[0] !== LINE_FEED;
}
