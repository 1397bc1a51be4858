import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { checkKeys, formWith, listKeys } from "../../src/contract/arguments.js";
import type { Logger } from "../../src/manager/logger.js";
import type { CheckpointManagerOptions } from "../../src/manager/options.js";
import { checkRetentionPolicy, type RetentionPolicy } from "../../src/manager/retention-plan.js";
import type { ChannelMigration } from "./migrations.js";

/** The manager's options that a saver passes on. */
type ManagerOptions = Pick<
  CheckpointManagerOptions,
  "storage" | "ownsStorage" | "transforms" | "stateVersion" | "maxPayloadBytes" | "clock" | "logger"
>;

export interface WaymarkSaverOptions extends ManagerOptions {
  /**
   * Turns values into bytes. Default: Waymark's JSON with tags, with LangGraph's own form for messages and its other
   * objects.
   */
  readonly serde?: SerializerProtocol | undefined;
  /** Which checkpoints of a thread to keep after each `put`; see {@link WaymarkSaver.prune}. Default: all. */
  readonly retention?: RetentionPolicy | undefined;
  /**
   * Whether only one run may continue from a checkpoint. Default true: if another run or an `updateState` has already
   * continued from it, `put` throws a CheckpointConflictError. With false both continue, as in LangGraph's own savers,
   * and the last one wins.
   */
  readonly exclusive?: boolean | undefined;
  /**
   * Under `n`: a function that brings the channel values of `stateVersion` n to n + 1. Pending writes keep their form.
   */
  readonly migrations?: Readonly<Record<number, ChannelMigration>> | undefined;
}

/** @throws {TypeError | RangeError} An option is misspelled or out of range; the message names it. */
export function checkOptions(options: WaymarkSaverOptions): void {
  if (typeof options === "object" && options !== null && "append" in options) {
    throw new TypeError("WaymarkSaver takes options: new WaymarkSaver({ storage }).");
  }
  checkKeys("WaymarkSaverOptions", options, OPTIONS, formWith("storage", undefined));
  const { serde, retention, exclusive = true } = options;
  if (serde !== undefined && (typeof serde?.dumpsTyped !== "function" || typeof serde.loadsTyped !== "function")) {
    throw new TypeError(
      "WaymarkSaverOptions.serde must have dumpsTyped and loadsTyped, as LangGraph's serializers have.",
    );
  }
  if (typeof exclusive !== "boolean") throw new TypeError("WaymarkSaverOptions.exclusive must be true or false.");
  if (retention !== undefined) checkRetentionPolicy(retention);
}

/**
 * Warns if gzip is used on a database. With encryption there is no warning: encrypted states are stored whole anyway,
 * so gzip helps.
 */
export function warnOfCompression({ storage, transforms = [] }: WaymarkSaverOptions, logger: Logger): void {
  const names = transforms.map(({ name }) => name);
  if (!DATABASES.includes(storage.name) || !names.includes("gzip") || names.includes("encrypt")) return;
  logger.warn(
    { transforms: names },
    "gzip makes threads larger here: a database stores what changed since the last checkpoint, and can't see that in " +
      "compressed states. Leave gzip out",
  );
}

/** The storages that keep only what changed between states. */
const DATABASES = ["sqlite", "postgres"];

const OPTIONS = listKeys<WaymarkSaverOptions>({
  storage: true,
  ownsStorage: true,
  transforms: true,
  stateVersion: true,
  maxPayloadBytes: true,
  clock: true,
  logger: true,
  serde: true,
  retention: true,
  exclusive: true,
  migrations: true,
});
