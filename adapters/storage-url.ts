import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { checkKeys, listKeys } from "../src/contract/arguments.js";
import { UnsupportedOperationError } from "../src/contract/errors.js";

/** The options of functions that take a storage URL. */
export interface OpenStorageOptions {
  /** The folder from which a relative path in the URL starts. Default: the current folder. */
  readonly relativeTo?: string | undefined;
}

/** The schemes of storage URLs. `postgresql:` counts as `postgres`. */
export type StorageScheme = "memory" | "files" | "tasks" | "sqlite" | "postgres";

/** The place that a storage URL names: this process's memory, a path on this machine, or a server's tables. */
export type StorageLocation = MemoryLocation | FileLocation | ServerLocation;

/** The memory of the process that opens the storage. */
export interface MemoryLocation {
  readonly scheme: "memory";
}

/** A folder or a file. */
export interface FileLocation {
  readonly scheme: Exclude<StorageScheme, "memory" | "postgres">;
  /** The absolute path. */
  readonly path: string;
  /** The value of `?pretty=` in a `files:` URL. */
  readonly pretty?: boolean | undefined;
}

/** A schema of a server's database. */
export interface ServerLocation {
  readonly scheme: "postgres";
  /** The connection URL. It may contain a password. */
  readonly url: string;
  readonly schema: string | undefined;
  /** The storage's name in messages, without user and password. */
  readonly name: string;
}

/**
 * Parses a storage URL. Doesn't check whether the storage exists.
 *
 * @throws {UnsupportedOperationError} The URL has an unknown scheme.
 * @throws {TypeError} The URL doesn't have the form of its scheme, or an option is misspelled.
 */
export function storageLocation(url: string, options: OpenStorageOptions = {}): StorageLocation {
  checkKeys("OpenStorageOptions", options, listKeys<OpenStorageOptions>({ relativeTo: true }));
  const { scheme: word, path } = parse(url);
  if (word === "postgres" || word === "postgresql") return serverLocation(url);
  if (word === "memory") {
    if (path === "") return { scheme: "memory" };
    throw new TypeError("memory: takes no path, because each such storage is new and empty. Write only memory:.");
  }
  const scheme = SCHEMES.find((known) => known === word);
  if (scheme === undefined) {
    // The message leaves out the rest of the URL, since it may contain a password.
    throw new UnsupportedOperationError(
      `No storage has the scheme "${word}". Write ${FORMS}. Nothing was read or written.`,
    );
  }
  const [named = "", ...query] = path.split("?");
  if (scheme === "sqlite" && named === ":memory:") {
    throw new TypeError("sqlite: needs the path of a file. Write memory: for a storage in memory. Nothing was opened.");
  }
  const location = { scheme, path: resolvePath(named, url, options.relativeTo ?? process.cwd()) };
  return query.length === 0 ? location : { ...location, ...parseOptions(query.join("?"), scheme) };
}

const SCHEMES = ["files", "tasks", "sqlite"] as const satisfies StorageScheme[];
const FORMS = "files:DIR, tasks:DIR, sqlite:FILE, postgres://USER@HOST/DATABASE or memory:";

/** @throws {TypeError} The scheme doesn't have one of the options, or an option has a wrong value. */
function parseOptions(query: string, scheme: FileLocation["scheme"]): Pick<FileLocation, "pretty"> {
  const options = new URLSearchParams(query);
  const unknown = [...options.keys()].find((key) => scheme !== "files" || key !== "pretty");
  if (unknown !== undefined) {
    throw new TypeError(
      `${scheme}: has no option ${JSON.stringify(unknown)}; it takes ${scheme === "files" ? "only ?pretty=true" : "none"}. ` +
        "If the path contains a question mark, pass an adapter with this path. Nothing was opened.",
    );
  }
  const values = options.getAll("pretty");
  const wrong = values.find((value) => value !== "true" && value !== "false");
  if (wrong !== undefined) {
    throw new TypeError(`?pretty= must be true or false, and is ${JSON.stringify(wrong)}. Nothing was opened.`);
  }
  return { pretty: values.length === 0 ? undefined : values.at(-1) === "true" };
}

function serverLocation(text: string): ServerLocation {
  if (!URL.canParse(text) || !text.includes("://")) {
    throw new TypeError(
      "A PostgreSQL URL must be like postgres://USER:PASSWORD@HOST:5432/DATABASE?schema=waymark, with special characters " +
        `percent-encoded. Write ${FORMS}.`,
    );
  }
  const url = new URL(text);
  const schema = url.searchParams.get("schema") ?? undefined;
  // All other parameters are pg's.
  url.searchParams.delete("schema");
  const part = schema === undefined ? "" : `?schema=${encodeURIComponent(schema)}`;
  return { scheme: "postgres", url: url.href, schema, name: `postgres://${url.host}${url.pathname}${part}` };
}

function parse(url: string): { readonly scheme: string; readonly path: string } {
  if (typeof url !== "string") throw new TypeError(`A storage URL must be a string: ${FORMS}.`);
  // A scheme has at least two letters, because one letter before a colon is a Windows drive.
  const found = /^([a-z][a-z0-9+.-]+):(.*)$/is.exec(url);
  if (found?.[1] === undefined || found[2] === undefined) {
    // The message leaves out a text with an @, since it may contain a password.
    const shown = url.includes("@") ? "The text" : JSON.stringify(url);
    throw new TypeError(`${shown} isn't a storage URL, because it has no scheme. Write ${FORMS}.`);
  }
  return { scheme: found[1].toLowerCase(), path: found[2] };
}

function resolvePath(path: string, url: string, folder: string): string {
  if (path === "") throw new TypeError(`The storage URL ${JSON.stringify(url)} has no path. Write ${FORMS}.`);
  // `sqlite://data/x.db` could mean data/x.db as well as /x.db on a host named data.
  if (/^\/\/[^/]/.test(path)) {
    const plain = url.replace("://", ":");
    throw new TypeError(
      `A storage URL has no host, so ${JSON.stringify(url)} could mean two things. ` +
        `Write ${plain} for a path from here, or ${plain.replace(":", ":/")} for an absolute one.`,
    );
  }
  if (path === "~" || path.startsWith("~/")) return join(homedir(), path.slice(1));
  return isAbsolute(path) ? resolve(path) : resolve(folder, path);
}
