import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { basename, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Run, WorkOptions } from "waymark";
import { checkKeys, listKeys } from "waymark/kit";
import { CommandError, ExitCode } from "../exit-code.js";

/** The worker options that a module may set. Options on the command line take precedence. */
export type WorkerOptions = Partial<
  Pick<WorkOptions, "prefix" | "concurrency" | "maxAttempts" | "version" | "ifVersionChanged" | "leaseOptions">
>;

/** The function that runs each task. */
export type WorkerFunction = (run: Run<unknown, unknown, unknown>) => unknown;

/** What a worker's module exports as default. A function alone stands for `{ run }`. */
export interface WorkerModule extends WorkerOptions {
  readonly run: WorkerFunction;
}

/**
 * Loads a worker's module: JavaScript, or TypeScript if Node strips its types.
 *
 * @throws {CommandError} There is no such file, it can't be loaded, or its default export isn't a worker.
 */
export async function loadWorker(file: string): Promise<WorkerModule> {
  const path = resolve(file);
  if (!existsSync(path)) throw new CommandError(ExitCode.notFound, `There is no module ${path}. Check --module.`);
  const exported = await importDefault(path);
  try {
    return readWorker(exported);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `The module ${path} isn't a worker: ${reason.replace(/\.$/, "")}. Nothing was run.`;
    throw new CommandError(ExitCode.usage, message, { cause });
  }
}

async function importDefault(path: string): Promise<unknown> {
  try {
    const module: object = await import(pathToFileURL(path).href);
    return Reflect.get(module, "default");
  } catch (cause) {
    const isTypes = cause instanceof Error && "code" in cause && cause.code === "ERR_UNKNOWN_FILE_EXTENSION";
    const reason = isTypes
      ? `it needs Node 22.18 or newer, which strips types, and this is Node ${process.version}. Name a JavaScript file.`
      : `${String(cause)}${await describePosition(path, cause)}`;
    throw new CommandError(ExitCode.usage, `The module ${path} could not be loaded: ${reason}`, { cause });
  }
}

/** Returns where a module's error was thrown, ` (worker.js:3)`; empty if that isn't known. */
async function describePosition(path: string, error: unknown): Promise<string> {
  if (!(error instanceof Error)) return "";
  // A module's SyntaxError doesn't name the file. Node's own check does, without running the module.
  const isNameless = error instanceof SyntaxError && !error.stack?.includes("file://");
  const text = isNameless ? await checkModule(path) : error.stack;
  const [, file, line] = /^(?: *at |.*\()?(?:file:\/\/)?(\/.*?):(\d+)/m.exec(text ?? "") ?? [];
  return file === undefined ? "" : ` (${basename(file)}:${line})`;
}

function checkModule(path: string): Promise<string> {
  return new Promise((done) => execFile(process.execPath, ["--check", path], (_failure, _out, errors) => done(errors)));
}

/** @throws {Error} The value isn't a worker. */
function readWorker(exported: unknown): WorkerModule {
  if (exported === undefined) {
    throw new Error('it has no default export. Write export default { prefix: "mail/", async run(run) { … } }');
  }
  if (isFunction(exported)) return { run: exported };
  if (typeof exported !== "object" || exported === null || Array.isArray(exported)) {
    throw new Error("its default export must be a function, or an object with run");
  }
  checkKeys("Its default export", exported, KEYS);
  if (isWorker(exported)) return exported;
  throw new Error("its default export has no function run");
}

function isFunction(value: unknown): value is WorkerFunction {
  return typeof value === "function";
}

/** `manager.work` checks the values of the options. */
function isWorker(value: unknown): value is WorkerModule {
  return typeof value === "object" && value !== null && "run" in value && isFunction(value.run);
}

const KEYS = listKeys<WorkerModule>({
  prefix: true,
  concurrency: true,
  maxAttempts: true,
  version: true,
  ifVersionChanged: true,
  leaseOptions: true,
  run: true,
});
