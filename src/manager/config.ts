import { checkTransforms, type Transform } from "../codec/transforms.js";
import type { StorageAdapter } from "../contract/adapter.js";
import { checkKeys } from "../contract/keys.js";
import { checkRetentionPolicy, type RetentionPolicy } from "./retention.js";

/** A project's settings for its checkpoints, shared by its own program and the `waymark` command. */
export interface WaymarkConfig {
  /**
   * A storage URL for `openStorage` of `waymark/adapters`, or any adapter. The `waymark` command resolves a relative path
   * from the folder of the configuration file.
   */
  readonly storage?: string | StorageAdapter | undefined;
  /** The default policy of `waymark prune`. */
  readonly retention?: RetentionPolicy | undefined;
  /** The transforms that states are saved with: `[gzip()]`. They are needed to read them. */
  readonly transforms?: readonly Transform[] | undefined;
}

/**
 * Checks and types a configuration and returns it. `waymark.config.js`, `.mjs` or, where Node strips types, `.ts` exports
 * it as default.
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
 */
export function defineConfig(config: WaymarkConfig): WaymarkConfig {
  checkConfig("The configuration", config);
  return config;
}

/**
 * Refuses a value that is not a configuration.
 *
 * @param what - Where it comes from, for the message: `/project/waymark.config.json`.
 * @throws {TypeError | RangeError} A setting is misspelled or out of range; the message names it.
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
