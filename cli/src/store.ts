import { existsSync } from "node:fs";
import { join } from "node:path";
import { CheckpointManager, type CheckpointManagerOptions, type Logger, type StorageAdapter } from "waymark";
import { openStorage } from "waymark/adapters";
import { PostgresAdapter } from "waymark/adapters/postgres";
import type { ProjectConfig } from "./config-file.js";
import type { Damage } from "./damage.js";
import { CommandError, ExitCode } from "./exit-code.js";
import { type InspectedFile, type InspectedLocation, inspectLocation } from "./storage-location.js";

/** Where `waymark plan run` keeps its runs if no storage is named. The other commands also look there. */
export const DEFAULT_FILE = join(".waymark", "checkpoints.db");

/** The open storage of a command, with its origin. */
export interface Store {
  readonly storage: StorageAdapter;
  /** A manager for work that needs no state, without transforms and retention policy. */
  readonly manager: CheckpointManager;
  /** Makes a manager for work that reads or writes states, with the configuration's options. */
  readonly configured: () => Promise<CheckpointManager>;
  /** The name for messages: the URL with the whole path, without a password. */
  readonly name: string;
  /** The storage's location; `undefined` if the configuration has its own adapter. */
  readonly location?: InspectedLocation;
  /** Loads the configuration at the first call. */
  readonly config: () => Promise<ProjectConfig>;
}

/** The storage that a query reads, and the receiver of unreadable records. */
export interface QuerySession extends Store {
  readonly damage: Damage;
}

/** `read`: the storage must exist. `watch`: its first save may come later. `write`: the command may create it. */
export type StorePurpose = "read" | "watch" | "write";

/**
 * Opens the storage that `--storage` names or, if it isn't given, the variable WAYMARK_STORAGE or the project's
 * configuration. If none of them names a storage, opens {@link DEFAULT_FILE} if it exists.
 *
 * @param config - Called if a part of the configuration is needed.
 * @throws {CommandError} No storage is named, the location has a storage of another kind, or `purpose` is `read` and
 *   the storage doesn't exist.
 */
export async function openStore(
  flag: string | undefined,
  config: () => Promise<ProjectConfig>,
  purpose: StorePurpose,
  damage: Damage,
): Promise<Store> {
  const chosen = await chooseStorage(flag, config, purpose);
  const reporting = (config: ManagerConfig) => {
    const manager = makeManager(chosen.storage, config, damage);
    manager.on("corrupt", (record) => void damage.add(record));
    return manager;
  };
  return { ...chosen, config, manager: reporting({}), configured: async () => reporting(await config()) };
}

/**
 * Opens the storage of a URL for writing.
 *
 * @throws {CommandError} The location has a storage of another kind.
 */
export async function openTarget(
  url: string,
): Promise<{ readonly storage: StorageAdapter; readonly location: InspectedLocation; readonly name: string }> {
  const location = await inspectLocation(url);
  if (location.scheme !== "postgres") assertKind(location, url);
  return { location, name: shownUrl(location), storage: openStorage(url) };
}

/** The parts of the configuration that a manager uses. */
type ManagerConfig = Pick<ProjectConfig, "transforms" | "retention" | "redact">;

/** Returns a manager on the storage. The caller closes the storage, and listens for damage. */
export function makeManager(
  storage: StorageAdapter,
  { transforms, retention, redact }: ManagerConfig,
  damage: Damage,
  options: Pick<CheckpointManagerOptions, "stateVersion"> = {},
): CheckpointManager {
  const logger = makeWarningLogger(damage);
  return new CheckpointManager({ storage, transforms, retention, redact, ownsStorage: false, logger, ...options });
}

/** @param configuration - Called only if neither the flag nor the variable names a storage. */
export async function chooseStorage(
  flag: string | undefined,
  configuration: () => Promise<ProjectConfig>,
  purpose: StorePurpose,
): Promise<Pick<Store, "storage" | "name" | "location">> {
  // An empty variable counts as unset.
  const url = flag ?? (process.env["WAYMARK_STORAGE"] || undefined);
  if (url !== undefined) return openUrl(url, process.cwd(), purpose);
  const { storage, folder } = await configuration();
  if (typeof storage === "string") return openUrl(storage, folder, purpose);
  if (storage !== undefined) return { name: storage.name, storage };
  if (existsSync(DEFAULT_FILE)) return openUrl(`sqlite:${DEFAULT_FILE}`, process.cwd(), purpose);
  throw new CommandError(
    ExitCode.usage,
    "No storage is named. Pass --storage sqlite:FILE (or files:DIR, tasks:DIR, postgres://…), set WAYMARK_STORAGE, or name it in waymark.config.js.",
  );
}

async function openUrl(url: string, relativeTo: string, purpose: StorePurpose) {
  const location = await inspectLocation(url, { relativeTo });
  const name = shownUrl(location);
  if (location.scheme === "postgres") return { name, location, storage: await openServer(url, name, purpose) };
  // To an adapter, a missing storage looks like an empty one. A backup of it would be empty too.
  if (!location.isThere && purpose === "read") {
    throw new CommandError(
      ExitCode.notFound,
      `There is no storage ${url}: nothing is at ${location.path}. Check --storage, WAYMARK_STORAGE or the configuration; the first save creates a storage.`,
    );
  }
  assertKind(location, url);
  if (location.holds === undefined && location.other !== undefined && purpose === "read") {
    throw new CommandError(
      ExitCode.notFound,
      `There are no checkpoints at ${url}: ${location.path} is ${location.other}. Check --storage, WAYMARK_STORAGE or the configuration. Nothing was changed.`,
    );
  }
  return { name, location, storage: openStorage(url, { relativeTo }) };
}

/**
 * Opens a server's database. It checks for Waymark's tables, because a database or schema without them would look like
 * an empty storage.
 */
async function openServer(url: string, name: string, purpose: StorePurpose): Promise<StorageAdapter> {
  const storage = openStorage(url);
  if (purpose !== "read" || !(storage instanceof PostgresAdapter) || (await storage.hasTables())) return storage;
  await storage.close();
  throw new CommandError(
    ExitCode.notFound,
    `There is no storage ${name}: the database has no tables of Waymark in that schema. Check --storage, WAYMARK_STORAGE or the configuration; the first save makes them.`,
  );
}

function shownUrl(location: InspectedLocation): string {
  return location.scheme === "postgres" ? location.name : `${location.scheme}:${location.path}`;
}

function assertKind({ scheme, path, holds }: InspectedFile, url: string): void {
  if (holds === undefined || holds === scheme) return;
  if (holds === "text") {
    throw new CommandError(
      ExitCode.usage,
      `${url} isn't a storage: ${path} is a text file, not a ${scheme === "sqlite" ? "database" : "folder"}. Check --storage, WAYMARK_STORAGE or the configuration. Nothing was read or changed.`,
    );
  }
  // The URL's options don't apply to another kind of storage.
  const right = `${holds}${url.slice(url.indexOf(":")).replace(/\?.*/s, "")}`;
  throw new CommandError(
    ExitCode.usage,
    `${url} is not a ${scheme} storage: ${path} has a ${holds} storage. Write ${right} instead. Nothing was read or changed.`,
  );
}

/**
 * Returns a logger that prints the SDK's warnings, except those about corrupt records: these are also reported by
 * events, and counted by `damage`.
 */
function makeWarningLogger(damage: Damage): Logger {
  const warn = (details: object, message: string) => {
    if (!("corrupt" in details)) void damage.warn(message);
  };
  return { debug() {}, info() {}, warn, error: warn };
}
