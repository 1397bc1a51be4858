import type { StorageAdapter } from "../src/contract/adapter.js";
import { JsonFileAdapter } from "./files/json-file.js";
import { TaskFileAdapter } from "./files/task-file.js";
import { MemoryAdapter } from "./memory.js";
import { PostgresAdapter } from "./postgres/postgres.js";
import { SqliteAdapter } from "./sqlite/sqlite.js";
import { type FileLocation, type OpenStorageOptions, storageLocation } from "./storage-url.js";

export {
  type FileLocation,
  type MemoryLocation,
  type OpenStorageOptions,
  type ServerLocation,
  type StorageLocation,
  type StorageScheme,
  storageLocation,
} from "./storage-url.js";

/**
 * Makes the adapter that a URL names. The storage is opened at its first use, so nothing is created yet.
 *
 * | URL | storage |
 * | --- | --- |
 * | `files:DIR` | `JsonFileAdapter`: one JSON file per checkpoint; `?pretty=true` writes states over many lines |
 * | `tasks:DIR` | `TaskFileAdapter`: one `checkpoints.json` per task |
 * | `sqlite:FILE` | `SqliteAdapter`: one database |
 * | `postgres://USER:PASSWORD@HOST/DATABASE` | `PostgresAdapter`; `?schema=NAME` selects a schema other than `waymark` |
 * | `memory:` | `MemoryAdapter`, for tests: a new, empty storage for each call |
 *
 * In the first three URLs, a path follows the colon. The path isn't decoded, and ends at a question mark. A leading
 * `~/` stands for the home folder.
 *
 * @example
 * ```ts
 * import { CheckpointManager } from "waymark";
 * import { openStorage } from "waymark/adapters";
 *
 * const manager = new CheckpointManager({ storage: openStorage("sqlite:.waymark/checkpoints.db") });
 * ```
 *
 * @throws {UnsupportedOperationError} The URL has an unknown scheme.
 * @throws {TypeError} The URL doesn't have the form of its scheme, or an option is unknown.
 */
export function openStorage(url: string, options: OpenStorageOptions = {}): StorageAdapter {
  const location = storageLocation(url, options);
  if (location.scheme === "memory") return new MemoryAdapter();
  if (location.scheme === "postgres") return new PostgresAdapter({ url: location.url, schema: location.schema });
  return SCHEMES[location.scheme](location);
}

const SCHEMES: Readonly<Record<FileLocation["scheme"], (location: FileLocation) => StorageAdapter>> = {
  files: ({ path, pretty }) => new JsonFileAdapter({ path, pretty }),
  tasks: ({ path }) => new TaskFileAdapter({ path }),
  sqlite: ({ path }) => new SqliteAdapter({ path }),
};
