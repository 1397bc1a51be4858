import { createHash } from "node:crypto";
import { jsonText } from "../printable.js";

/** What a line of an export is. */
export type LineKind = "header" | "record" | "trailer";

/** What an export begins with. */
export interface ExportHeader {
  readonly format: "waymark-export";
  readonly version: 1;
  /** ISO 8601 in UTC. */
  readonly exportedAt: string;
}

/** What a whole export ends with. */
export interface ExportTrailer {
  readonly records: number;
  readonly tasks: number;
  /** How many could not be read, and are not in it. */
  readonly damaged: number;
  /** The SHA-256 over the checksums of all lines before: none was taken out, put in or moved. */
  readonly lines: string;
}

/** A line that was read, with its checksum checked. */
export interface ExportLine {
  readonly kind: LineKind;
  readonly sha256: string;
  readonly value: unknown;
}

/**
 * A line of an export: its checksum, over the text of the JSON that follows, and that.
 *
 * ```
 * {"sha256":"9f86d0…","record":{"taskId":"build-42",…}}
 * ```
 */
export function renderLine(kind: LineKind, value: unknown): { readonly sha256: string; readonly text: string } {
  const json = jsonText(value);
  const sha256 = sha256Of(json);
  return { sha256, text: `{"sha256":"${sha256}","${kind}":${json}}` };
}

/**
 * What {@link renderLine} made.
 *
 * @throws {Error} It isn't that; the message says what is wrong, as the rest of a sentence.
 */
export function parseLine(text: string): ExportLine {
  const { sha256, kind, json } = LINE.exec(text)?.groups ?? {};
  if (sha256 === undefined || json === undefined || !isKind(kind)) throw new Error("it is no whole line of an export");
  if (sha256Of(json) !== sha256) throw new Error("its checksum doesn't match what stands in it");
  return { kind, sha256, value: JSON.parse(json) };
}

export function sha256Of(body: string | Uint8Array): string {
  return createHash("sha256").update(body).digest("hex");
}

const LINE = /^\{"sha256":"(?<sha256>[0-9a-f]{64})","(?<kind>[a-z]+)":(?<json>.*)\}$/s;

function isKind(kind: string | undefined): kind is LineKind {
  return kind === "header" || kind === "record" || kind === "trailer";
}
