import { CheckpointManager, type CheckpointManagerOptions, type Logger, type StorageAdapter } from "waymark";
import { openStorage, type StoragePlace, storagePlace } from "waymark/adapters";
import { loadConfig, type ProjectConfig } from "./config-file.js";
import type { Damage } from "./damage.js";
import { CommandError, ExitCode } from "./exit-code.js";

/** The storage that a command works on, opened, and what it was opened by. */
export interface Store {
  readonly storage: StorageAdapter;
  readonly manager: CheckpointManager;
  /** For messages: its URL. */
  readonly name: string;
  /** Where it is, unless the configuration has an adapter of its own. */
  readonly place?: StoragePlace;
  readonly config: ProjectConfig;
}

/** Whether a command wants what is stored, or stores: then a storage that isn't there yet is made. */
export type StorePurpose = "read" | "write";

/**
 * Opens the storage of `--storage`, else of the variable WAYMARK_STORAGE, else of the project's configuration.
 *
 * @throws {CommandError} None of them names one; or it isn't there and is to be read; or what is there is of another kind.
 */
export async function openStore(flag: string | undefined, purpose: StorePurpose, damage: Damage): Promise<Store> {
  const config = await loadConfig();
  const chosen = await chooseStorage(flag, config, purpose);
  // Not left to the manager, which many commands don't ask for anything.
  for (const { message } of (await chosen.storage.warnings?.()) ?? []) await damage.warn(message);
  return { ...chosen, config, manager: managerOf(chosen.storage, config, damage) };
}

/**
 * Opens the storage of a URL, for a command that stores in it.
 *
 * @throws {CommandError} What is there is of another kind.
 */
export async function openTarget(
  url: string,
): Promise<{ readonly storage: StorageAdapter; readonly place: StoragePlace }> {
  const place = await storagePlace(url);
  assertKind(place, url);
  return { place, storage: await openStorage(url) };
}

/** A manager over the storage, which stays the caller's to close. */
export function managerOf(
  storage: StorageAdapter,
  config: ProjectConfig,
  damage: Damage,
  options: Pick<CheckpointManagerOptions, "stateVersion"> = {},
): CheckpointManager {
  const { transforms, retention } = config;
  const logger = warningsOf(damage);
  const manager = new CheckpointManager({ storage, transforms, retention, ownsStorage: false, logger, ...options });
  manager.on("corrupt", (record) => void damage.add(record));
  return manager;
}

async function chooseStorage(
  flag: string | undefined,
  { storage, folder }: ProjectConfig,
  purpose: StorePurpose,
): Promise<Pick<Store, "storage" | "name" | "place">> {
  // An empty variable is one that somebody has switched off.
  const url = flag ?? (process.env["WAYMARK_STORAGE"] || undefined);
  if (url !== undefined) return openUrl(url, process.cwd(), purpose);
  if (typeof storage === "string") return openUrl(storage, folder, purpose);
  if (storage !== undefined) return { name: storage.name, storage };
  throw new CommandError(
    ExitCode.usage,
    "No storage is named. Pass --storage sqlite:FILE (or files:DIR, tasks:DIR), set WAYMARK_STORAGE, or name it in waymark.config.js.",
  );
}

async function openUrl(url: string, relativeTo: string, purpose: StorePurpose) {
  const place = await storagePlace(url, { relativeTo });
  // An adapter would find nothing there, which looks like an empty storage: a backup made of it would be empty too.
  if (!place.isThere && purpose === "read") {
    throw new CommandError(
      ExitCode.notFound,
      `There is no storage ${url}: nothing is at ${place.path}. Check --storage, WAYMARK_STORAGE or the configuration; a new storage is made by the first save.`,
    );
  }
  assertKind(place, url);
  return { name: url, place, storage: await openStorage(url, { relativeTo }) };
}

function assertKind({ scheme, path, holds }: StoragePlace, url: string): void {
  if (holds === undefined || holds === scheme) return;
  const right = `${holds}${url.slice(url.indexOf(":"))}`;
  throw new CommandError(
    ExitCode.usage,
    `${url} is no storage of ${scheme}: at ${path} is one of ${holds}. Write ${right}. Nothing was read or changed.`,
  );
}

/** What the SDK warns of. What is corrupt comes as an event too, and is told then; of the storage's place it was told. */
function warningsOf(damage: Damage): Logger {
  const warn = (details: object, message: string) => {
    if (!("corrupt" in details) && !("storage" in details)) void damage.warn(message);
  };
  return { debug() {}, info() {}, warn, error: warn };
}
