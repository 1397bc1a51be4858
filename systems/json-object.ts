import { closeSync, constants, openSync, readFileSync } from "node:fs";
import { readCode } from "../src/contract/errors.js";

/** The reason why a file's content can't be used. Callers add the path and what to do. */
export class UnreadableError extends Error {
  override readonly name: string = "UnreadableError";
}

/**
 * The file holds valid JSON, but no object. The programs that own such a file write only objects, so another program
 * wrote this one.
 */
export class NotAnObjectError extends UnreadableError {
  override readonly name = "NotAnObjectError";
}

// Don't follow a link, and don't wait for a pipe in the file's place. Windows has neither flag.
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

const NOT_A_FILE: Readonly<Record<string, string>> = {
  EISDIR: "it is a folder",
  ELOOP: "it is a symbolic link, and links are not followed",
  ENXIO: "it is not a file",
};

/**
 * The JSON object in a file; `undefined` if there is no file.
 *
 * @throws {UnreadableError} The path is not a file, or its content is not UTF-8, not JSON or not an object.
 */
export function readJsonObject(path: string): Record<string, unknown> | undefined {
  const bytes = readBytes(path);
  return bytes && parseJsonObject(bytes);
}

/** @throws {UnreadableError} The bytes are not UTF-8, not JSON or not an object. */
export function parseJsonObject(bytes: Uint8Array): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new UnreadableError("it is cut short or isn't JSON", { cause });
  }
  if (!isRecord(value)) throw new NotAnObjectError("it is not a JSON object");
  return value;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @throws {UnreadableError} The path is not a file. */
export function readBytes(path: string): Buffer | undefined {
  let file: number | undefined;
  try {
    file = openSync(path, READ_FLAGS);
    return readFileSync(file);
  } catch (error) {
    const code = readCode(error);
    if (code === "ENOENT") return undefined;
    const reason = NOT_A_FILE[code ?? ""];
    throw reason === undefined ? error : new UnreadableError(reason, { cause: error });
  } finally {
    if (file !== undefined) closeSync(file);
  }
}
