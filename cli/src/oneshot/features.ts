import { CheckpointCorruptError, CheckpointStaleError, StorageError, UnsupportedFormatError } from "waymark";
import { CheckpointRepository, type OneshotCheckpoint } from "waymark/oneshot";
import type { Cli } from "../cli.js";
import { CommandError, ExitCode, toExitCode } from "../exit-code.js";
import { jsonText, printable } from "../printable.js";
import { resumeLine } from "../shell-command.js";
import { statusCell } from "../status-cell.js";
import { BlockPrinter, printTable } from "../table.js";
import { agoText, timeText } from "../words.js";

/** A feature with a checkpoint. A successful run removes the checkpoint. */
interface Feature extends OneshotCheckpoint {
  /** If the status is `running`: whether the run is still alive. Absent if that isn't known. */
  readonly runner?: "alive" | "died";
}

/** The subcommands of `waymark oneshot`. A feature with such a name needs `waymark oneshot run <feature>`. */
const SUBCOMMANDS = ["list", "run", "status"];

/** The options of the commands that show features. */
interface Shown {
  readonly json: boolean;
  /** The folder of the checkpoints. */
  readonly dir: string | undefined;
}

/** Prints the checkpoints of all features, one row each. */
export async function printFeatures(cli: Cli, { json, dir }: Shown): Promise<void> {
  const repository = new CheckpointRepository(".", { checkpointDir: dir });
  const checkpoints: Feature[] = [];
  const damaged: { feature: string; reason: string }[] = [];
  const foreign: string[] = [];
  for (const feature of await repository.list()) {
    try {
      checkpoints.push(await load(repository, feature));
    } catch (error) {
      if (error instanceof UnsupportedFormatError) {
        foreign.push(error.message);
        continue;
      }
      // If one file belongs to another user or is damaged, the other features are still shown.
      if (!(error instanceof CheckpointCorruptError || error instanceof StorageError)) throw error;
      damaged.push({ feature, reason: error.message });
      cli.exitCode = toExitCode(error);
    }
  }
  if (json) return cli.output.line(jsonText({ checkpoints, damaged, foreign }));
  const { output } = cli;
  await printTable(output, checkpoints, [
    { head: "FEATURE", flexible: true, cell: ({ featureId }) => featureId },
    { head: "STATUS", cell: ({ status, runner }) => statusCell(status, output.colors, runner) },
    { head: "COMPLETED", align: "right", cell: ({ completedWs }) => String(completedWs.length) },
    { head: "AT", flexible: true, cell: ({ currentWs }) => currentWs },
    { head: "SAVED", cell: ({ lastUpdate }) => agoText(lastUpdate.toISOString(), Date.now()) },
  ]);
  for (const reason of [...damaged.map(({ reason }) => reason), ...foreign]) await cli.warn(reason);
  if (checkpoints.length + damaged.length > 0) return;
  await cli.errors.line(printable(`No feature has a checkpoint in ${repository.checkpointDir}.`));
  cli.exitCode = ExitCode.notFound;
}

/** Prints the checkpoint of one feature. */
export async function printFeature(cli: Cli, featureId: string, { json, dir }: Shown): Promise<void> {
  const repository = new CheckpointRepository(".", { checkpointDir: dir });
  if (!(await repository.exists(featureId))) {
    throw new CommandError(
      ExitCode.notFound,
      `Feature ${JSON.stringify(featureId)} has no checkpoint in ${repository.checkpointDir}: it was never started, or ` +
        'was completed. "waymark oneshot list" shows the features that have one.',
    );
  }
  const feature = await load(repository, featureId);
  const resume = feature.runner === "alive" ? undefined : await makeResumeLine(repository, featureId, dir);
  if (json) return cli.output.line(jsonText({ ...feature, resume }));
  await print(cli, feature);
  await cli.output.line(printable(resume === undefined ? "It is being run now." : `Continue with: ${resume}`));
}

async function load(repository: CheckpointRepository, featureId: string): Promise<Feature> {
  const checkpoint = await repository.load(featureId, { force: true });
  // Other programs write these files without taking Waymark's lock.
  if (checkpoint.status !== "running" || checkpoint.waymark === undefined) return checkpoint;
  try {
    return { ...checkpoint, runner: repository.isBeingRun(featureId) ? "alive" : "died" };
  } catch (error) {
    // In another user's folder the lock may be unreadable. The checkpoint can still be shown.
    if (error instanceof StorageError) return checkpoint;
    throw error;
  }
}

async function makeResumeLine(
  repository: CheckpointRepository,
  featureId: string,
  dir: string | undefined,
): Promise<string> {
  const words = ["oneshot", ...(SUBCOMMANDS.includes(featureId) ? ["run"] : []), featureId];
  if (dir !== undefined) words.push("--dir", dir);
  try {
    await repository.load(featureId);
    return resumeLine(words);
  } catch (error) {
    if (error instanceof CheckpointStaleError) return resumeLine([...words, "--force"]);
    throw error;
  }
}

async function print({ output }: Cli, feature: Feature): Promise<void> {
  const { featureId, status, runner, completedWs, currentWs, startTime, lastUpdate, waymark } = feature;
  const block = new BlockPrinter(output);
  const when = (date: Date) => `${timeText(date.toISOString())} UTC, ${agoText(date.toISOString(), Date.now())}`;
  block.add("feature", featureId);
  block.add("status", statusCell(status, output.colors, runner));
  block.add("started", when(startTime));
  block.add("saved", when(lastUpdate));
  if (waymark?.plan !== undefined) block.add("plan", waymark.plan);
  if (waymark?.workstreams !== undefined) block.add("workstreams", waymark.workstreams);
  if (waymark?.command !== undefined) block.add("command", waymark.command);
  for (const workstream of completedWs) block.add("completed", workstream);
  block.add("current", currentWs);
  await block.end();
}
