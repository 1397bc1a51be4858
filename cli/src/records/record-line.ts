import { createHash } from "node:crypto";
import { jsonText } from "../printable.js";

/** The kind of a line of an export. */
export type LineKind = "header" | "record" | "trailer";

/** The first line of an export. */
export interface ExportHeader {
  readonly format: "waymark-export";
  readonly version: 1;
  /** ISO 8601 in UTC. */
  readonly exportedAt: string;
}

/** The last line of a complete export. */
export interface ExportTrailer {
  readonly records: number;
  readonly tasks: number;
  /** How many records could not be read and are missing. */
  readonly damaged: number;
  /** The SHA-256 over the checksums of all lines before it. It shows that no line was removed, added or moved. */
  readonly lines: string;
}

/** A line whose checksum was checked. */
export interface ExportLine {
  readonly kind: LineKind;
  readonly sha256: string;
  readonly value: unknown;
}

/**
 * A line of an export: a checksum, and the JSON that it covers.
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
 * Reads a line of {@link renderLine}.
 *
 * @throws {Error} The line is malformed. The message is the end of a sentence.
 */
export function parseLine(text: string): ExportLine {
  const { sha256, kind, json } = LINE.exec(text)?.groups ?? {};
  if (sha256 === undefined || json === undefined || !isKind(kind))
    throw new Error("it is not a whole line of an export");
  if (sha256Of(json) !== sha256) throw new Error("its checksum doesn't match its content");
  return { kind, sha256, value: JSON.parse(json) };
}

export function sha256Of(body: string | Uint8Array): string {
  return createHash("sha256").update(body).digest("hex");
}

const LINE = /^\{"sha256":"(?<sha256>[0-9a-f]{64})","(?<kind>[a-z]+)":(?<json>.*)\}$/s;

function isKind(kind: string | undefined): kind is LineKind {
  return kind === "header" || kind === "record" || kind === "trailer";
}
