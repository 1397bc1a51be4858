import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { loadConfig, type WaymarkConfig } from "waymark/config";
import { CommandError, ExitCode } from "./exit-code.js";

/** A project's configuration, with the folder that its relative paths start from. */
export interface ProjectConfig extends WaymarkConfig {
  /** The path of the configuration file; `undefined` if there is none. */
  readonly file?: string;
  readonly folder: string;
}

/**
 * Loads the configuration of `--config`. Without the option, it takes the configuration of the current folder, or of
 * the nearest folder above that has one.
 *
 * @throws {CommandError} `--config` names a file that doesn't exist.
 * @throws {TypeError} The configuration can't be loaded, is wrong, or belongs to another user.
 */
export async function projectConfig(named: string | undefined): Promise<ProjectConfig> {
  if (named !== undefined && !existsSync(named)) {
    throw new CommandError(ExitCode.notFound, `There is no configuration ${resolve(named)}. Check --config.`);
  }
  const loaded = await loadConfig({ file: named });
  if (loaded === undefined) return { folder: process.cwd() };
  const { config, file, folder } = loaded;
  return { ...config, file, folder };
}

/**
 * Returns a warning that a system's checkpoints don't use the project's transforms, because systems write their own
 * formats. If the project has no transforms, it returns `undefined`.
 *
 * @param command - `waymark prp run`
 */
export function whyPlain(command: string, { transforms = [] }: ProjectConfig): string | undefined {
  if (transforms.length === 0) return undefined;
  return `${command} writes its checkpoints as plain text: the transforms of this project's configuration don't apply to them`;
}
