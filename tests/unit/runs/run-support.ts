import { join } from "node:path";
import {
  CheckpointManager,
  type CheckpointManagerOptions,
  type EncodingSchema,
  type StorageAdapter,
  StorageError,
} from "waymark";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { newStore } from "../../support/postgres.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";

export const STORAGES: Record<string, () => Promise<StorageAdapter>> = {
  memory: async () => new MemoryAdapter(),
  "json-file": async () => openStorage(`files:${join(await tempFolder(), "store")}`),
  "task-file": async () => openStorage(`tasks:${join(await tempFolder(), "store")}`),
  sqlite: async () => openStorage(`sqlite:${join(await tempFolder(), "store.db")}`),
  postgres: async () => (await newStore()).adapter,
};

/** A manager that leaves its storage open, with a logger that keeps its lines. */
export function managerOn<State = unknown>(
  storage: StorageAdapter = new MemoryAdapter(),
  options: Partial<CheckpointManagerOptions<EncodingSchema<State>>> = {},
) {
  const logger = recordingLogger();
  const manager = new CheckpointManager({ storage, ownsStorage: false, logger, ...options });
  return { manager, storage, logger };
}

/**
 * A storage that dies after `left` appends: a run on it ends as if it was killed there, except that its lease is free.
 */
export function dyingAfter(left: number, storage: StorageAdapter): StorageAdapter {
  let rest = left;
  return new Proxy(storage, {
    get(target, key) {
      if (key === "append") {
        return async (...args: Parameters<StorageAdapter["append"]>) => {
          rest -= 1;
          if (rest < 0) throw new StorageError("The process was killed.");
          return target.append(...args);
        };
      }
      const value: unknown = Reflect.get(target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
