import { type Checkpoint, maxChannelVersion } from "@langchain/langgraph-checkpoint";
import { isPromiseLike } from "../../src/contract/built-ins.js";
import { toFailure } from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import type { Logger } from "../../src/manager/logger.js";
import type { WritesRecord } from "./records.js";

/**
 * Brings a checkpoint's channel values to the form of the next version. The values include LangGraph's own channels
 * (`branch:to:…`, `__start__`), which stay even if the result lacks them. Any other channel that the result lacks is
 * removed.
 */
export type ChannelMigration = (values: Record<string, unknown>) => Record<string, unknown>;

/** A checkpoint with its pending writes; each has its own state version. */
interface Read {
  readonly checkpoint: Checkpoint;
  readonly stateVersion: number;
  readonly writes: readonly WritesRecord[];
}

/** Brings stored checkpoints of older graphs to this graph's version. */
export class ChannelMigrations {
  readonly #version: number;
  readonly #migrations: Readonly<Record<number, ChannelMigration>>;
  readonly #logger: Logger;
  readonly #reported = new Set<string>();

  constructor(version: number, migrations: Readonly<Record<number, ChannelMigration>>, logger: Logger) {
    this.#version = version;
    this.#migrations = migrations;
    this.#logger = logger;
  }

  /**
   * If a task wrote to a channel that was removed, all its writes are dropped, so the task runs again.
   *
   * @throws {UnsupportedFormatError} A migration is missing or fails, or the writes are newer than this graph.
   */
  apply({ checkpoint, stateVersion, writes }: Read): Pick<Read, "checkpoint" | "writes"> {
    const newer = writes.find((record) => record.stateVersion > this.#version)?.stateVersion;
    if (newer !== undefined) {
      throw new UnsupportedFormatError(
        `The pending writes of checkpoint ${checkpoint.id} have state version ${newer}; this program knows version ${this.#version}. ` +
          "They were left untouched; use the program that stored them, or a newer one.",
      );
    }
    if (stateVersion === this.#version) return { checkpoint, writes };
    const { id, channel_values: old } = checkpoint;
    let values = old;
    for (let version = stateVersion; version < this.#version; version++) values = this.#next(values, version, id);
    const versions = { ...checkpoint.channel_versions };
    const [first = 1, ...others] = Object.values(versions);
    for (const channel of Object.keys(values)) {
      if (!Object.hasOwn(versions, channel)) versions[channel] = maxChannelVersion(first, ...others);
    }
    const gone = new Set(Object.keys(old).filter((channel) => !Object.hasOwn(values, channel)));
    for (const channel of gone) delete versions[channel];
    this.#report(id, [...gone]);
    return {
      checkpoint: { ...checkpoint, channel_values: values, channel_versions: versions },
      writes: writes.map((record) => {
        const isLost = record.stateVersion < this.#version && record.writes.some(({ channel }) => gone.has(channel));
        return isLost ? { ...record, writes: record.writes.filter(({ index }) => index < 0) } : record;
      }),
    };
  }

  #next(values: Record<string, unknown>, version: number, id: string): Record<string, unknown> {
    const what = `Checkpoint ${id} was left untouched, but the migration of channel values from ${version} to ${version + 1}`;
    const migrate = this.#migrations[version];
    if (migrate === undefined) throw new UnsupportedFormatError(`${what} is missing: add it.`);
    const ofGraph = Object.entries(values).filter(([channel]) => /^(__|branch:|join:)/.test(channel));
    let migrated: unknown;
    try {
      migrated = migrate({ ...values });
    } catch (cause) {
      throw new UnsupportedFormatError(`${what} failed: ${toFailure(cause).message}`, { cause });
    }
    if (typeof migrated !== "object" || migrated === null || isPromiseLike(migrated) || Array.isArray(migrated)) {
      throw new UnsupportedFormatError(`${what} returned no object of values. It must return one, and not a promise.`);
    }
    // To LangGraph, a channel whose value is undefined has no value.
    const defined = Object.entries(migrated).filter(([, value]) => value !== undefined);
    return Object.fromEntries([...ofGraph, ...defined]);
  }

  /** Warns once for the same channels, not at each read of each checkpoint. */
  #report(id: string, channels: readonly string[]): void {
    const names = channels.join(", ");
    if (names === "" || this.#reported.has(names)) return;
    this.#reported.add(names);
    this.#logger.warn(
      { id, channels },
      `The migrations removed or renamed these channels of older checkpoints: ${names}`,
    );
  }
}
