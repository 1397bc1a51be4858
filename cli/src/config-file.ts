import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { loadConfig, type WaymarkConfig } from "waymark/config";
import { CommandError, ExitCode } from "./exit-code.js";

/** A project's configuration, and the folder that its relative paths start from. */
export interface ProjectConfig extends WaymarkConfig {
  /** Its file; `undefined` if there is none. */
  readonly file?: string;
  readonly folder: string;
}

/**
 * The configuration of `--config`. Without one, that of the current folder, or of the nearest folder above that has one.
 *
 * @throws {CommandError} `--config` names nothing.
 * @throws {TypeError} The configuration can't be loaded, it is wrong, or it belongs to somebody else.
 */
export async function projectConfig(named: string | undefined): Promise<ProjectConfig> {
  if (named !== undefined && !existsSync(named)) {
    throw new CommandError(ExitCode.notFound, `There is no configuration ${resolve(named)}. Check --config.`);
  }
  return (await loadConfig({ file: named })) ?? { folder: process.cwd() };
}

/**
 * A warning that a system's checkpoints don't use the project's transforms, because systems write their own formats.
 * `undefined` if the project has no transforms.
 *
 * @param command - `waymark prp run`
 */
export function whyPlain(command: string, { transforms = [] }: ProjectConfig): string | undefined {
  if (transforms.length === 0) return undefined;
  return `${command} writes its checkpoints as plain text: the transforms of this project's configuration don't apply to them`;
}
