import { hash } from "node:crypto";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { type MarkedWrite, type MarkedWritesRecord, type StoredWrite, toText } from "./records.js";

/** Shorter values get no mark. */
const SHORTEST = 1024;

/**
 * Shortens the JSON of a pending write: where it repeats a channel's value from its checkpoint, a mark takes the
 * value's place. In a list, a mark stands for all items of the channel, and new items may follow it. For example, a
 * Send has the checkpoint's messages and a new one.
 *
 * @param channels - Each channel's JSON in the checkpoint.
 */
export function marked(json: string, channels: readonly (readonly [channel: string, json: string])[]) {
  let text = json;
  const marks: Record<string, string> = {};
  for (const [channel, value] of channels) {
    if (value.length < SHORTEST || value.length > text.length) continue;
    const inner = unwrap(value);
    const opening = value.startsWith("[") ? "[" : "";
    const parts = text.split(opening + inner);
    if (parts.length === 1) continue;
    const mark = hash("sha256", inner);
    const shorter = parts.join(`${opening}"${mark}"`);
    if (text.includes(mark) || !isStable(shorter)) continue;
    text = shorter;
    marks[mark] = channel;
  }
  return { text, marks: text === json ? undefined : marks };
}

/**
 * Puts the channels' values back in place of the marks.
 *
 * @param jsonOf - Returns a channel's JSON in the checkpoint that the writes are on top of.
 * @throws {CheckpointCorruptError} The checkpoint has another value now.
 */
export function unmarked<Whole extends MarkedWritesRecord>(
  record: Whole,
  jsonOf: (channel: string) => string | undefined,
): Omit<Whole, "writes"> & { readonly writes: readonly StoredWrite[] } {
  return { ...record, writes: record.writes.map((write) => ("marks" in write ? whole(write, jsonOf) : write)) };
}

function whole(
  { channel, index, marked, marks }: MarkedWrite,
  jsonOf: (of: string) => string | undefined,
): StoredWrite {
  let text = toText(marked) ?? "";
  // A later mark may stand for a text that contains an earlier mark, so the later one is undone first.
  for (const [mark, of] of Object.entries(marks).reverse()) {
    const inner = unwrap(jsonOf(of) ?? "");
    if (hash("sha256", inner) !== mark) {
      throw new CheckpointCorruptError(
        `A pending write to channel ${JSON.stringify(channel)} can't be read: its checkpoint has another value of channel ` +
          `${JSON.stringify(of)} than when it was written. Both were left untouched.`,
      );
    }
    text = text.split(`"${mark}"`).join(inner);
  }
  const value: unknown = JSON.parse(text);
  return { channel, index, value: "tagged" in marked ? { tagged: value } : { json: value } };
}

/** Removes the brackets of a list's JSON. Returns any other JSON unchanged. */
function unwrap(json: string): string {
  return json.startsWith("[") ? json.slice(1, -1) : json;
}

/**
 * Whether `text` is unchanged after parsing and encoding. False if a mark cuts a value in two: `1,2` (the items of
 * [1, 2]) also begins `1,23`.
 */
function isStable(text: string): boolean {
  try {
    return JSON.stringify(JSON.parse(text)) === text;
  } catch {
    return false;
  }
}
