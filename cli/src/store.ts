import { resolve } from "node:path";
import { CheckpointManager, type CheckpointManagerOptions, type Logger, type StorageAdapter } from "waymark";
import { openStorage } from "waymark/adapters";
import { loadConfig, type ProjectConfig } from "./config-file.js";
import type { Damage } from "./damage.js";
import { CommandError, ExitCode } from "./exit-code.js";

/** The storage that a command works on, opened, and what it was opened by. */
export interface Store {
  readonly storage: StorageAdapter;
  readonly manager: CheckpointManager;
  /** For messages: its URL. */
  readonly name: string;
  readonly config: ProjectConfig;
}

/**
 * Opens the storage of `--storage`, else of the variable WAYMARK_STORAGE, else of the project's configuration.
 *
 * @throws {CommandError} None of them names one.
 */
export async function openStore(flag: string | undefined, damage: Damage): Promise<Store> {
  const config = await loadConfig();
  const { storage, name } = await chooseStorage(flag, config);
  // Not left to the manager, which many commands don't ask for anything.
  for (const { message } of (await storage.warnings?.()) ?? []) await damage.warn(message);
  return { storage, name, config, manager: managerOf(storage, config, damage) };
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

/** A name by which two URLs of one storage are the same. */
export function canonicalName(url: string): string {
  const colon = url.indexOf(":");
  return `${url.slice(0, colon).toLowerCase()}:${resolve(url.slice(colon + 1))}`;
}

async function chooseStorage(
  flag: string | undefined,
  config: ProjectConfig,
): Promise<Pick<Store, "storage" | "name">> {
  // An empty variable is one that somebody has switched off.
  const url = flag ?? (process.env["WAYMARK_STORAGE"] || undefined);
  if (url !== undefined) return { name: url, storage: await openStorage(url) };
  if (typeof config.storage === "string") {
    return { name: config.storage, storage: await openStorage(config.storage, { relativeTo: config.folder }) };
  }
  if (config.storage !== undefined) return { name: config.storage.name, storage: config.storage };
  throw new CommandError(
    ExitCode.usage,
    "No storage is named. Pass --storage sqlite:FILE (or files:DIR, tasks:DIR), set WAYMARK_STORAGE, or name it in waymark.config.js.",
  );
}

/** What the SDK warns of. What is corrupt comes as an event too, and is told then; of the storage's place it was told. */
function warningsOf(damage: Damage): Logger {
  const warn = (details: object, message: string) => {
    if (!("corrupt" in details) && !("storage" in details)) void damage.warn(message);
  };
  return { debug() {}, info() {}, warn, error: warn };
}
