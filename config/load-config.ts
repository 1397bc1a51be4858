import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, extname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { compileFunction } from "node:vm";
import { checkKeys, checkText, listKeys } from "../src/contract/arguments.js";
import { isError, readCode } from "../src/contract/errors.js";
import { checkConfig, type WaymarkConfig } from "./config.js";
import { assertOurs } from "./config-owner.js";

export interface LoadConfigOptions {
  /** The folder where the search begins. Default: the current folder. */
  readonly cwd?: string | undefined;
  /** The configuration's file, relative to `cwd`. If it is given, nothing is searched. */
  readonly file?: string | undefined;
}

/** A project's configuration with its location. */
export interface LoadedConfig {
  /** The settings. They go into a manager: `new CheckpointManager({ ...config, storage })`. */
  readonly config: WaymarkConfig;
  /** The absolute path of the file. */
  readonly file: string;
  /** The folder that relative paths in the configuration start from. */
  readonly folder: string;
}

/**
 * Loads the configuration of the folder, or of the nearest folder above that has one: `waymark.config.js`, `.mjs`,
 * `.ts` or `.json`, or `"waymark"` in a package.json. A configuration that the search finds must belong to this user or
 * to root. If there is none, returns `undefined`.
 *
 * @throws {TypeError} The configuration can't be loaded, is wrong, or belongs to another user; the message names the
 *   file.
 */
export async function loadConfig(options: LoadConfigOptions = {}): Promise<LoadedConfig | undefined> {
  checkKeys("LoadConfigOptions", options, listKeys<LoadConfigOptions>({ cwd: true, file: true }));
  const { cwd = process.cwd(), file } = options;
  checkText("cwd", cwd, 1);
  if (file !== undefined) checkText("file", file, 1);
  if (file !== undefined) return load(resolve(cwd, file), { isFound: false });
  for (const folder of foldersFrom(resolve(cwd))) {
    for (const name of NAMES) {
      const path = join(folder, name);
      const loaded = existsSync(path) ? await load(path, { isFound: true }) : undefined;
      if (loaded !== undefined) return loaded;
    }
    if (folder === homedir()) return undefined;
  }
  return undefined;
}

const TYPES = [".js", ".mjs", ".ts", ".json"];
const NAMES = [...TYPES.map((type) => `waymark.config${type}`), "package.json"];

/** Names the places of a search without a result. */
export function searchedPlaces(cwd = process.cwd()): string {
  return `neither ${resolve(cwd)} nor a folder above it has a ${NAMES.slice(0, -1).join(", ")}, or a package.json with "waymark"`;
}

/** Returns the folder and all folders above it. */
function foldersFrom(folder: string): string[] {
  const above = dirname(folder);
  return above === folder ? [folder] : [folder, ...foldersFrom(above)];
}

/**
 * @param isFound - Whether a search found the file. Then its owner is checked, and a package.json may lack a
 *   configuration.
 * @throws {TypeError} The configuration can't be used; the message names the file.
 */
async function load(path: string, { isFound }: { readonly isFound: boolean }): Promise<LoadedConfig | undefined> {
  try {
    const config = await read(path, isFound);
    if (config === undefined) return undefined;
    checkConfig("The configuration", config);
    return { config, file: path, folder: dirname(path) };
  } catch (cause) {
    const reason = isError(cause) ? cause.message : String(cause);
    throw new TypeError(`The configuration in ${path} can't be used: ${reason}`, { cause });
  }
}

/**
 * Reads the configuration, which may be any value. A configuration that is a program runs only after its owner was
 * checked.
 */
async function read(path: string, isFound: boolean): Promise<unknown> {
  const type = extname(path);
  if (!existsSync(path)) throw new Error("there is no such file.");
  if (!TYPES.includes(type)) throw new Error("its name must end in .js, .mjs, .ts or .json.");
  if (type !== ".json") {
    if (isFound) await assertOurs(path);
    if (type === ".js") await assertParses(path);
    return type === ".ts" ? importTypeScript(path) : importDefault(path);
  }
  const json = await readJson(path);
  const config = basename(path) === "package.json" ? valueIn(json, "waymark") : json;
  if (config === undefined && isFound) return undefined;
  if (config === undefined) throw new Error('it has no "waymark".');
  // The owner is checked before any of the JSON is used.
  if (isFound) await assertOurs(path);
  return config;
}

async function importDefault(path: string): Promise<unknown> {
  const exported = valueIn(await import(pathToFileURL(path).href), "default");
  if (exported !== undefined) return exported;
  throw new Error("it has no default export; write `export default defineConfig({ … })`.");
}

/** Node strips the types itself, or the user's loader does. */
async function importTypeScript(path: string): Promise<unknown> {
  try {
    return await importDefault(path);
  } catch (cause) {
    if (readCode(cause) !== "ERR_UNKNOWN_FILE_EXTENSION") throw cause;
    const needed = `it needs Node 22.18 or newer, which strips its types, and this is Node ${process.version}.`;
    throw new Error(`${needed} Rename it to waymark.config.mjs, without types.`, { cause });
  }
}

/**
 * Refuses an ES module that Node would take for CommonJS. Node's own reaction is a warning, and differs between
 * versions.
 *
 * @throws {Error} The file doesn't parse. The message has Node's reason, and tells how to rename an ES module.
 */
async function assertParses(path: string): Promise<void> {
  const manifest = foldersFrom(dirname(path))
    .map((folder) => join(folder, "package.json"))
    .find((file) => existsSync(file));
  if (manifest === undefined || valueIn(await readJson(manifest), "type") === "module") return;
  const code = await readFile(path, "utf8");
  try {
    compileFunction(code, ["exports", "require", "module", "__filename", "__dirname"], { filename: path });
  } catch (cause) {
    const error = `${findLine(cause)}${isError(cause) ? cause.message : String(cause)}`;
    if (!/^[ \t]*(?:import|export)\b/m.test(code)) throw new Error(`it isn't JavaScript: ${error}.`, { cause });
    throw new Error(
      `${manifest} has no "type": "module", so Node reads it as CommonJS, and it isn't (${error}). Rename it to ` +
        `${basename(path, ".js")}.mjs.`,
      { cause },
    );
  }
}

/** The line of a syntax error, which Node writes only into the stack: `/project/waymark.config.js:2`. */
function findLine(error: unknown): string {
  const [, line] = /^.*:(\d+)\n/.exec((isError(error) && error.stack) || "") ?? [];
  return line === undefined ? "" : `line ${line}: `;
}

async function readJson(path: string): Promise<unknown> {
  return JSON.parse((await readFile(path, "utf8")).replace(/^\uFEFF/, ""));
}

function valueIn(object: unknown, key: string): unknown {
  return typeof object === "object" && object !== null ? Reflect.get(object, key) : undefined;
}
