import { hash } from "node:crypto";
import { jsonText } from "../printable.js";

const KINDS = ["header", "record", "trailer"] as const;

/** A line with a verified checksum. */
export interface CheckedLine {
  readonly kind: (typeof KINDS)[number];
  readonly sha256: string;
  readonly value: unknown;
}

/**
 * A line of an export or of a plan: a checksum, and the JSON that it covers.
 *
 * ```
 * {"sha256":"9f86d0…","record":{"taskId":"build-42",…}}
 * ```
 */
export function renderLine(
  kind: CheckedLine["kind"],
  value: unknown,
): { readonly sha256: string; readonly text: string } {
  const json = jsonText(value);
  const sha256 = sha256Of(json);
  return { sha256, text: `{"sha256":"${sha256}","${kind}":${json}}` };
}

/**
 * Reads a line written by {@link renderLine}.
 *
 * @throws {Error} The line is malformed. The message is the end of a sentence.
 */
export function parseLine(text: string): CheckedLine {
  const { sha256, name, json } = LINE.exec(text)?.groups ?? {};
  const kind = KINDS.find((known) => known === name);
  if (sha256 === undefined || json === undefined || kind === undefined) throw new Error("it is not a whole line");
  if (sha256Of(json) !== sha256) throw new Error("its checksum doesn't match its content");
  return { kind, sha256, value: JSON.parse(json) };
}

export function sha256Of(body: string | Uint8Array): string {
  return hash("sha256", body, "hex");
}

const LINE = /^\{"sha256":"(?<sha256>[0-9a-f]{64})","(?<name>[a-z]+)":(?<json>.*)\}$/s;
