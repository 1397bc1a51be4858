import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { checkKeys, type StorageAdapter } from "../src/adapter.js";
import { UnsupportedOperationError } from "../src/errors.js";

/** The options of {@link openStorage}. */
export interface OpenStorageOptions {
  /** The folder that a relative path in the URL begins at. Default: the current one. */
  readonly relativeTo?: string | undefined;
}

/**
 * The storage that a URL names. Its adapter is loaded by this call, and none of the others; the storage itself is opened
 * at its first use, so nothing is created yet.
 *
 * | URL | storage |
 * | --- | --- |
 * | `files:DIR` | `JsonFileAdapter`: one JSON file per checkpoint |
 * | `tasks:DIR` | `TaskFileAdapter`: one `checkpoints.json` per task |
 * | `sqlite:FILE` | `SqliteAdapter`: one database |
 *
 * What follows the colon is a path, taken as it is: nothing in it is decoded. `~/` at its beginning is the home folder.
 *
 * @example
 * ```ts
 * import { CheckpointManager } from "waymark";
 * import { openStorage } from "waymark/adapters";
 *
 * const manager = new CheckpointManager({ storage: await openStorage("sqlite:.waymark/checkpoints.db") });
 * ```
 *
 * @throws {UnsupportedOperationError} No storage of that scheme is known; `postgres:` comes with a later version.
 * @throws {TypeError} It is no URL of that form, or an option is misspelled.
 */
export async function openStorage(url: string, options: OpenStorageOptions = {}): Promise<StorageAdapter> {
  checkKeys("OpenStorageOptions", options, ["relativeTo"]);
  const { scheme, path } = parse(url);
  const open = Object.hasOwn(SCHEMES, scheme) ? SCHEMES[scheme] : undefined;
  if (open === undefined) throw unsupported(url, scheme);
  return open(absolute(path, url, options.relativeTo ?? process.cwd()));
}

type OpenScheme = (path: string) => Promise<StorageAdapter>;

const SCHEMES: Readonly<Record<string, OpenScheme>> = {
  async files(path) {
    const { JsonFileAdapter } = await import("./files/json-file.js");
    return new JsonFileAdapter({ path });
  },
  async tasks(path) {
    const { TaskFileAdapter } = await import("./files/task-file.js");
    return new TaskFileAdapter({ path });
  },
  async sqlite(path) {
    const { SqliteAdapter } = await import("./sqlite.js");
    return new SqliteAdapter({ path });
  },
};

const FORMS = "files:DIR, tasks:DIR or sqlite:FILE";

function parse(url: string): { readonly scheme: string; readonly path: string } {
  if (typeof url !== "string") throw new TypeError(`A storage URL is a string: ${FORMS}.`);
  // One letter before a colon is a drive of Windows.
  const found = /^([a-z][a-z0-9+.-]+):(.*)$/is.exec(url);
  if (found?.[1] === undefined || found[2] === undefined) {
    throw new TypeError(`${JSON.stringify(url)} is no storage URL: there is no scheme in it. Write ${FORMS}.`);
  }
  return { scheme: found[1].toLowerCase(), path: found[2] };
}

function absolute(path: string, url: string, folder: string): string {
  if (path === "") throw new TypeError(`The storage URL ${JSON.stringify(url)} names no path. Write ${FORMS}.`);
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

function unsupported(url: string, scheme: string): UnsupportedOperationError {
  // The URL of a database server may hold a password, so it isn't repeated.
  if (scheme === "postgres" || scheme === "postgresql") {
    return new UnsupportedOperationError(
      `PostgreSQL comes with a later version of Waymark; this one stores in ${FORMS}. Nothing was read or written.`,
    );
  }
  return new UnsupportedOperationError(
    `No storage has the scheme ${JSON.stringify(scheme)}${url.includes("@") ? "" : `, of ${JSON.stringify(url)}`}. ` +
      `Write ${FORMS}. Nothing was read or written.`,
  );
}
