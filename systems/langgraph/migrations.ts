import { type Checkpoint, maxChannelVersion } from "@langchain/langgraph-checkpoint";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import type { Logger } from "../../src/manager/logger.js";

/** Gives a checkpoint's channel values the form of the next version. */
export type ChannelMigration = (values: Record<string, unknown>) => Record<string, unknown>;

/** From which version to which. */
export interface Versions {
  readonly from: number;
  readonly to: number;
  readonly migrations: Readonly<Record<number, ChannelMigration>>;
}

/** Brings a checkpoint of an older graph to the version of this one. It changes the checkpoint. */
export function migrated(checkpoint: Checkpoint, { from, to, migrations }: Versions, logger: Logger): void {
  const before = Object.keys(checkpoint.channel_values);
  for (let version = from; version < to; version++) {
    const migrate = migrations[version];
    if (migrate === undefined)
      throw new UnsupportedFormatError(`There is no migration from ${version} to ${version + 1}.`);
    checkpoint.channel_values = migrate(checkpoint.channel_values);
  }
  if (from >= to) return;
  const { channel_values: values, channel_versions: versions, id } = checkpoint;
  const all = Object.values(versions);
  for (const channel of Object.keys(values)) {
    if (!Object.hasOwn(versions, channel)) versions[channel] = all.length === 0 ? 1 : maxChannelVersion(...all);
  }
  const gone = before.filter((channel) => !Object.hasOwn(values, channel));
  for (const channel of gone) delete versions[channel];
  if (gone.length > 0) logger.info({ id, channels: gone }, `Migrations have removed channels: ${gone.join(", ")}`);
}
