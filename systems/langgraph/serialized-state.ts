import { type MadePayload, type MakePayloadOptions, makePayload, makePayloadOfJson } from "../../src/codec/payload.js";
import type { CheckpointState, MarkedWritesRecord, Marks, WritesRecord } from "./records.js";
import { type SerializedValue, storedValue } from "./stored-values.js";

/** A {@link CheckpointState} whose parts are serialized. */
export interface SerializedState {
  /** JSON. */
  readonly checkpoint: string;
  readonly metadata: SerializedValue;
  /** By channel, in the order of the object's keys. */
  readonly values: ReadonlyMap<string, SerializedValue>;
}

/** A {@link WritesRecord} whose values are serialized. */
export interface SerializedWrites extends Omit<WritesRecord, "writes"> {
  readonly writes: readonly SerializedWrite[];
}

interface SerializedWrite {
  readonly channel: string;
  readonly index: number;
  readonly value: SerializedValue;
  /** Only if the value has marks: see `marked`. */
  readonly marks?: Marks | undefined;
}

/** Makes the payload of serialized parts. (`makePayload` would walk through the values again.) */
export function statePayload(state: SerializedState, options: MakePayloadOptions): MadePayload | Promise<MadePayload> {
  const { checkpoint, metadata, values } = state;
  if (isJson([metadata, ...values.values()])) {
    const parts = Array.from(values, ([channel, value]) => `${JSON.stringify(channel)}:${toJson(value)}`);
    const json = `{"checkpoint":${checkpoint},"metadata":${toJson(metadata)},"values":{${toList(parts)}}}`;
    return makePayloadOfJson(json, options);
  }
  const whole: CheckpointState = {
    checkpoint: JSON.parse(checkpoint),
    metadata: storedValue(metadata),
    values: Object.fromEntries(Array.from(values, ([channel, value]) => [channel, storedValue(value)])),
  };
  return makePayload(whole, options);
}

/** Like {@link statePayload}, for a record of writes. */
export function writesPayload(
  { writes, ...of }: SerializedWrites,
  options: MakePayloadOptions,
): MadePayload | Promise<MadePayload> {
  if (isJson(writes.map(({ value }) => value))) {
    const parts = writes.map(({ value, ...rest }) => {
      const name = rest.marks === undefined ? "value" : "marked";
      return `${JSON.stringify(rest).slice(0, -1)},"${name}":${toJson(value)}}`;
    });
    return makePayloadOfJson(`${JSON.stringify(of).slice(0, -1)},"writes":[${toList(parts)}]}`, options);
  }
  const whole: MarkedWritesRecord = {
    ...of,
    writes: writes.map(({ value, marks, ...rest }) => {
      const stored = storedValue(value);
      return marks === undefined || "bytes" in stored ? { ...rest, value: stored } : { ...rest, marks, marked: stored };
    }),
  };
  return makePayload(whole, options);
}

/** A value's JSON in a record; `undefined` if it is bytes. */
function toJson(value: SerializedValue): string | undefined {
  return "text" in value ? `{"${value.isTagged ? "tagged" : "json"}":${value.text}}` : undefined;
}

/** Like `join`, but copies no megabytes: the whole text is put together once, when it is encoded. */
function toList(parts: readonly string[]): string {
  return parts.length === 0 ? "" : parts.reduce((list, part) => `${list},${part}`);
}

function isJson(values: readonly SerializedValue[]): boolean {
  return values.every((value) => "text" in value);
}
