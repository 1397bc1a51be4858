import { hash } from "node:crypto";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { type MarkedWrite, type MarkedWritesRecord, type StoredWrite, textOf } from "./records.js";

/** Shorter values are written as they are. */
const SHORTEST = 1024;

/**
 * The JSON of a value that is written on top of a checkpoint, with marks in place of the channels' values that stand in
 * it. In a list, a mark stands for all items, and more may follow: a Send has the checkpoint's messages and a new one.
 *
 * @param channels - JSON by channel.
 */
export function marked(json: string, channels: readonly (readonly [channel: string, json: string])[]) {
  let text = json;
  const marks: Record<string, string> = {};
  for (const [channel, value] of channels) {
    if (value.length < SHORTEST || value.length > text.length) continue;
    const inner = innerOf(value);
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
 * The record as `putWrites` was given it.
 *
 * @param jsonOf - The JSON of a channel's value in the checkpoint that the writes are on top of.
 * @throws {CheckpointCorruptError} The checkpoint has another value.
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
  let text = textOf(marked) ?? "";
  // A later mark may stand for a text that has an earlier one in it.
  for (const [mark, of] of Object.entries(marks).reverse()) {
    const inner = innerOf(jsonOf(of) ?? "");
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

/** The items of a list; all of anything else. */
function innerOf(json: string): string {
  return json.startsWith("[") ? json.slice(1, -1) : json;
}

/** Whether a text is JSON, and is read and written as the same text: [1, 2] also stands at the beginning of [1, 23]. */
function isStable(text: string): boolean {
  try {
    return JSON.stringify(JSON.parse(text)) === text;
  } catch {
    return false;
  }
}
