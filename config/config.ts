import { MemoryAdapter } from "../adapters/memory.js";
import { storageLocation } from "../adapters/storage-url.js";
import type { StorageAdapter } from "../src/contract/adapter.js";
import { checkKeys, listKeys } from "../src/contract/arguments.js";
import { type CheckpointManagerOptions, resolveOptions } from "../src/manager/options.js";

/**
 * A project's settings for its checkpoints. The program uses them through `openManager`. The `waymark` command uses
 * `storage`, `retention`, `transforms` and `redact`, and shows states in their stored form. `waymark work` uses all of
 * them.
 */
export interface WaymarkConfig
  extends Pick<
    CheckpointManagerOptions,
    "schema" | "stateVersion" | "migrations" | "retention" | "transforms" | "redact"
  > {
  /**
   * A storage URL for `openStorage`, or any adapter. A relative path in the URL starts from the folder of the
   * configuration's file. All managers of the process share the adapter, and the first `close` closes it.
   */
  readonly storage?: string | StorageAdapter | undefined;
  /** Commands that must succeed after each item of a plan, for `waymark plan run`. */
  readonly gates?: readonly string[] | undefined;
}

/**
 * Checks a configuration and returns it with its own type. Export the result as default from `waymark.config.js` or
 * `.mjs`, or from `.ts` if Node strips types.
 *
 * @example
 * ```ts
 * import { gzip } from "waymark";
 * import { defineConfig } from "waymark/config";
 *
 * const config = defineConfig({
 *   storage: "sqlite:.waymark/checkpoints.db",
 *   retention: { keepLast: 50 },
 *   transforms: [gzip()],
 * });
 * ```
 *
 * @throws {TypeError | RangeError} A setting is misspelled or out of range; the message names it.
 * @throws {UnsupportedOperationError} The storage URL has an unknown scheme.
 */
export function defineConfig<const Config extends WaymarkConfig>(config: Config & OnlyKeysOf<Config>): Config {
  checkConfig("The configuration", config);
  return config;
}

/** Turns a misspelled setting into a compile error. */
type OnlyKeysOf<Config> = Readonly<Record<Exclude<keyof Config, keyof WaymarkConfig>, never>>;

/**
 * Refuses a value that is not a configuration.
 *
 * @param what - Names the configuration in the message: `/project/waymark.config.json`.
 * @throws {TypeError | RangeError} A setting is misspelled or out of range; the message names it.
 * @throws {UnsupportedOperationError} The storage URL has an unknown scheme.
 */
export function checkConfig(what: string, config: unknown): asserts config is WaymarkConfig {
  checkKeys(what, config, CONFIG_KEYS);
  // Each setting is checked below, so its type doesn't matter here.
  const { storage, gates, ...others } = config as WaymarkConfig;
  if (
    gates !== undefined &&
    !(Array.isArray(gates) && gates.every((gate) => typeof gate === "string" && gate.trim() !== ""))
  ) {
    throw new TypeError(`${what}: gates must be a list of commands, such as ["npm test"].`);
  }
  if (storage !== undefined) checkStorage("storage", storage);
  if (typeof storage === "string") storageLocation(storage);
  resolveOptions({ ...others, storage: new MemoryAdapter() });
}

/** @throws {TypeError} Neither a text nor an adapter. */
export function checkStorage(what: string, storage: string | StorageAdapter): void {
  if (typeof storage === "string" || typeof storage?.append === "function") return;
  throw new TypeError(`${what} must be a URL such as "sqlite:.waymark/checkpoints.db", or an adapter.`);
}

const CONFIG_KEYS = listKeys<WaymarkConfig>({
  storage: true,
  gates: true,
  schema: true,
  stateVersion: true,
  migrations: true,
  retention: true,
  transforms: true,
  redact: true,
});
