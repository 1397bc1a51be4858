import type { StorageAdapter } from "../src/contract/adapter.js";
import { locationOf, type OpenStorageOptions, type StorageScheme } from "./storage-url.js";

export { type StoragePlace, storagePlace } from "./storage-place.js";
export type { OpenStorageOptions, StorageLocation, StorageScheme } from "./storage-url.js";

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
  const { scheme, path } = locationOf(url, options);
  return SCHEMES[scheme](path);
}

type OpenScheme = (path: string) => Promise<StorageAdapter>;

const SCHEMES: Readonly<Record<StorageScheme, OpenScheme>> = {
  async files(path) {
    const { JsonFileAdapter } = await import("./files/json-file.js");
    return new JsonFileAdapter({ path });
  },
  async tasks(path) {
    const { TaskFileAdapter } = await import("./files/task-file.js");
    return new TaskFileAdapter({ path });
  },
  async sqlite(path) {
    const { SqliteAdapter } = await import("./sqlite/sqlite.js");
    return new SqliteAdapter({ path });
  },
};
