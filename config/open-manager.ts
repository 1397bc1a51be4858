import { openStorage } from "../adapters/index.js";
import { CheckpointManager } from "../src/checkpoint-manager.js";
import type { StorageAdapter } from "../src/contract/adapter.js";
import { checkKeys, listKeys } from "../src/contract/arguments.js";
import type { CheckpointManagerOptions } from "../src/manager/options.js";
import type { EncodingSchema, StateSchema } from "../src/manager/schema.js";
import { checkStorage } from "./config.js";
import { type LoadConfigOptions, type LoadedConfig, loadConfig, searchedPlaces } from "./load-config.js";

/** Where to find the configuration, and settings that override it. */
export interface OpenManagerOptions<Schema extends StateSchema = StateSchema>
  extends LoadConfigOptions,
    Pick<CheckpointManagerOptions<Schema>, "schema" | "stateVersion" | "migrations" | "logger"> {
  /**
   * A storage URL or an adapter. A relative path in the URL starts from `cwd`. With this option, no configuration is
   * needed.
   */
  readonly storage?: string | StorageAdapter | undefined;
}

/**
 * Opens a manager with the project's configuration: its schema, retention, transforms and redaction. The storage is the
 * one that the `waymark` command opens in the same project. `close` closes the storage too.
 *
 * @example
 * ```ts
 * import { openManager } from "waymark/config";
 *
 * const manager = await openManager<{ phase: number }>({ storage: "memory:" });
 * await manager.save("build-42", { phase: 2 });
 * await manager.close();
 * ```
 *
 * @throws {TypeError | RangeError} An option is wrong, or the configuration is missing, can't be used, or names no
 *   storage.
 * @throws {UnsupportedOperationError} The storage URL has an unknown scheme.
 */
export async function openManager<State = unknown>(
  options?: OpenManagerOptions<EncodingSchema<State>>,
): Promise<CheckpointManager<State>>;
export async function openManager<State, Saved>(
  options: OpenManagerOptions<StateSchema<Saved, State>>,
): Promise<CheckpointManager<State, Saved>>;
export async function openManager(options: OpenManagerOptions = {}): Promise<CheckpointManager> {
  if (typeof options === "string" || (typeof options === "object" && options !== null && "append" in options)) {
    throw new TypeError("openManager takes options: openManager({ storage }).");
  }
  checkKeys("OpenManagerOptions", options, OPTION_KEYS);
  const { cwd, file, storage: chosen, ...others } = options;
  if (chosen !== undefined) checkStorage("OpenManagerOptions.storage", chosen);
  const loaded = await loadConfig({ cwd, file });
  const given = Object.entries(others).filter(([, value]) => value !== undefined);
  const storage = chosen === undefined ? fromConfig(loaded, cwd) : opened(chosen, cwd ?? process.cwd());
  const { gates: _ofPlans, ...config } = loaded?.config ?? {};
  return new CheckpointManager({ ...config, ...Object.fromEntries(given), storage });
}

const OPTION_KEYS = listKeys<OpenManagerOptions>({
  cwd: true,
  file: true,
  storage: true,
  schema: true,
  stateVersion: true,
  migrations: true,
  logger: true,
});

function fromConfig(loaded: LoadedConfig | undefined, cwd: string | undefined): StorageAdapter {
  if (loaded === undefined) {
    throw new TypeError(
      `There is no configuration: ${searchedPlaces(cwd)}. Write waymark.config.mjs with ` +
        '`export default { storage: "sqlite:.waymark/checkpoints.db" };`, or pass `storage`. Nothing was opened.',
    );
  }
  const { storage } = loaded.config;
  if (storage !== undefined) return opened(storage, loaded.folder);
  throw new TypeError(
    `The configuration in ${loaded.file} names no storage. Add storage: "sqlite:.waymark/checkpoints.db" to it, or pass \`storage\`. ` +
      "Nothing was opened.",
  );
}

function opened(storage: string | StorageAdapter, relativeTo: string): StorageAdapter {
  return typeof storage === "string" ? openStorage(storage, { relativeTo }) : storage;
}
