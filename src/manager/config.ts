import { checkTransforms, type Transform } from "../codec/transforms.js";
import { checkKeys, type StorageAdapter } from "../contract/adapter.js";
import { checkRetentionPolicy, type RetentionPolicy } from "./retention.js";

/** What a project says once about its checkpoints, for its own program and for the `waymark` command. */
export interface WaymarkConfig {
  /**
   * A storage URL, as `openStorage` of `waymark/adapters` takes it, or an adapter of any kind. To the `waymark` command,
   * a relative path begins at the file that has the configuration.
   */
  readonly storage?: string | StorageAdapter | undefined;
  /** What `waymark prune` goes by where it isn't told otherwise. */
  readonly retention?: RetentionPolicy | undefined;
  /** What states were saved with, so that they can be read: `[gzip()]`. */
  readonly transforms?: readonly Transform[] | undefined;
}

/**
 * The configuration as it is given, typed and checked: for `waymark.config.js` or `waymark.config.mjs`, which exports it
 * as default.
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
 * @throws {TypeError | RangeError} Something in it is misspelled, or out of its range; the message names it.
 */
export function defineConfig(config: WaymarkConfig): WaymarkConfig {
  checkConfig("The configuration", config);
  return config;
}

/**
 * Refuses what is no configuration, wherever it came from.
 *
 * @param what - Where it came from, for the message: `/project/waymark.config.json`.
 * @throws {TypeError | RangeError} Something in it is misspelled, or out of its range; the message names it.
 */
export function checkConfig(what: string, config: unknown): asserts config is WaymarkConfig {
  checkKeys(what, config, CONFIG_KEYS);
  if (!isObject(config)) return;
  const { storage, retention, transforms } = config;
  if (storage !== undefined && typeof storage !== "string" && !isAdapter(storage)) {
    throw new TypeError(`storage of ${what} must be a URL such as "sqlite:.waymark/checkpoints.db", or an adapter.`);
  }
  if (retention !== undefined && !isObject(retention)) {
    throw new TypeError(`retention of ${what} must be a retention policy: { keepLast: 50 }.`);
  }
  if (retention !== undefined) checkRetentionPolicy(retention);
  if (transforms !== undefined && !isTransforms(transforms)) {
    throw new TypeError(`transforms of ${what} must be an array of transforms: [gzip()].`);
  }
  if (transforms !== undefined) checkTransforms(transforms);
}

const CONFIG_KEYS = ["storage", "retention", "transforms"] satisfies (keyof WaymarkConfig)[];

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isAdapter(storage: unknown): storage is StorageAdapter {
  return isObject(storage) && typeof storage["append"] === "function";
}

function isTransforms(transforms: unknown): transforms is readonly Transform[] {
  return Array.isArray(transforms) && transforms.every(isObject);
}
