import { type MadePayload, type MakePayloadOptions, makePayload, makePayloadOfJson } from "../../src/codec/payload.js";
import type { CheckpointState } from "./records.js";
import { type SerializedValue, storedValue } from "./stored-values.js";

/** A {@link CheckpointState} whose parts are serialized. */
export interface SerializedState {
  /** JSON. */
  readonly checkpoint: string;
  readonly metadata: SerializedValue;
  /** In the order of an object's keys. */
  readonly values: ReadonlyMap<string, SerializedValue>;
}

/** As `makePayload`, which would walk through the values again. */
export function statePayload(
  { checkpoint, metadata, values }: SerializedState,
  options: MakePayloadOptions,
): MadePayload | Promise<MadePayload> {
  const json = stateJson(checkpoint, metadata, values);
  if (json !== undefined) return makePayloadOfJson(json, options);
  const state: CheckpointState = {
    checkpoint: JSON.parse(checkpoint),
    metadata: storedValue(metadata),
    values: Object.fromEntries([...values].map(([channel, value]) => [channel, storedValue(value)])),
  };
  return makePayload(state, options);
}

/** `undefined` if a value is bytes. */
function stateJson(
  checkpoint: string,
  metadata: SerializedValue,
  values: SerializedState["values"],
): string | undefined {
  const parts: string[] = [];
  for (const [channel, value] of values) {
    if (!("text" in value)) return undefined;
    parts.push(`${JSON.stringify(channel)}:{"json":${value.text}}`);
  }
  if (!("text" in metadata)) return undefined;
  return `{"checkpoint":${checkpoint},"metadata":{"json":${metadata.text}},"values":{${parts.join()}}}`;
}
