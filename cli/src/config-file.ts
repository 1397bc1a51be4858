import { existsSync } from "node:fs";
import { dirname, extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { checkConfig, type WaymarkConfig } from "waymark/config";
import { assertOurs } from "./config-owner.js";
import { CommandError, ExitCode } from "./exit-code.js";

/** A project's configuration, and the folder that its relative paths start from. */
export interface ProjectConfig extends WaymarkConfig {
  /** Its file; `undefined` if there is none. */
  readonly file?: string;
  readonly folder: string;
}

/**
 * The configuration of that file. Without one, that of the current folder, or of the nearest folder above that has one: it
 * must belong to this user or to root.
 *
 * @throws {CommandError} It can't be loaded, it is wrong, or it belongs to somebody else.
 */
export async function loadConfig(named: string | undefined): Promise<ProjectConfig> {
  const { lilconfig } = await import("lilconfig");
  const found = async (path: string) => {
    if (named === undefined) await assertOurs(path);
  };
  const running = (load: Load<unknown>) =>
    naming(async (path, content) => {
      await found(path);
      return load(path, content);
    });
  const files = lilconfig("waymark", {
    searchPlaces: TYPES.map((type) => `waymark.config${type}`).concat("package.json"),
    loaders: {
      ".js": running(importDefault),
      ".mjs": running(importDefault),
      ".ts": running(importTypeScript),
      ".json": naming(parseJson),
    },
  });
  const loaded = named === undefined ? await files.search() : await files.load(existing(named));
  if (loaded === null) return { folder: process.cwd() };
  const { filepath } = loaded;
  const config: unknown = loaded.config;
  return naming(async (path) => {
    // JSON was read, and nothing of it was used.
    await found(path);
    checkConfig(path, config);
    return { ...config, file: path, folder: dirname(path) };
  })(filepath, "");
}

const TYPES = [".js", ".mjs", ".ts", ".json"];

/** The whole path of `--config`. */
function existing(named: string): string {
  const path = resolve(named);
  if (!existsSync(path)) {
    throw new CommandError(ExitCode.notFound, `There is no configuration ${path}. Check --config.`);
  }
  if (TYPES.includes(extname(path))) return path;
  throw new CommandError(
    ExitCode.usage,
    `The configuration in ${path} can't be used: its name must end in .js, .mjs, .ts or .json.`,
  );
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

type Load<Result> = (path: string, content: string) => Result | Promise<Result>;

async function importDefault(path: string): Promise<unknown> {
  const exported: unknown = await import(pathToFileURL(path).href);
  if (typeof exported === "object" && exported !== null && "default" in exported) return exported.default;
  throw new TypeError("it has no default export; write `export default defineConfig({ … })`.");
}

/** Node strips the types itself, or a loader of the user's own does. */
async function importTypeScript(path: string): Promise<unknown> {
  try {
    return await importDefault(path);
  } catch (cause) {
    if (!(cause instanceof Error && "code" in cause && cause.code === "ERR_UNKNOWN_FILE_EXTENSION")) throw cause;
    const needed = `it needs Node 22.18 or newer, which strips its types, and this is Node ${process.version}.`;
    throw new Error(`${needed} Rename it to waymark.config.mjs, without types.`, { cause });
  }
}

function parseJson(_path: string, content: string): unknown {
  return JSON.parse(content.replace(/^\uFEFF/, ""));
}

/** The same, with errors that name the file. */
function naming<Result>(load: Load<Result>): (path: string, content: string) => Promise<Result> {
  return async (path, content) => {
    try {
      return await load(path, content);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new CommandError(ExitCode.usage, `The configuration in ${path} can't be used: ${reason}`, { cause });
    }
  };
}
