import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Statement, SyntaxNode } from "unbash";
import { isRecord } from "waymark/kit";
import { commandIn, readWords } from "./conditions.js";

/** The scripts of a package.json. */
export type PackageScripts = Readonly<Record<string, string>>;

/** Returns the scripts of a folder's package.json. If it can't be read, returns none: a coder may create it later. */
export async function readScripts(folder: string): Promise<PackageScripts> {
  try {
    const { scripts }: { readonly scripts?: unknown } = JSON.parse(
      await readFile(join(folder, "package.json"), "utf8"),
    );
    const entries = isRecord(scripts) ? Object.entries(scripts) : [];
    return Object.fromEntries(entries.flatMap(([name, text]) => (typeof text === "string" ? [[name, text]] : [])));
  } catch {
    return {};
  }
}

/** A statement of a gate that starts a server in the foreground, so nothing after it would run. */
export interface ForegroundServer {
  /** The port that the gate's text names; `undefined` if the text names none. */
  readonly port: number | undefined;
}

/**
 * Returns the server that a statement starts in the foreground: `npm run dev`, `cd app && uvicorn main:app`.
 *
 * @param after - The gate's text after the statement, which often names the port.
 */
export function foregroundServer(
  { command, background }: Statement,
  text: string,
  after: string,
  scripts: PackageScripts,
): ForegroundServer | undefined {
  if (background === true) return undefined;
  const last =
    command.type === "AndOr" && command.operators.every((each) => each === "&&") ? command.commands.at(-1) : command;
  const simple = commandIn(last);
  if (simple === undefined || !runsForEver(readWords(simple), scripts)) return undefined;
  if (/^(?:tail|watch)$/.test(simple.name?.value ?? "") || /\b(?:test|vitest|jest|tsc)\b/.test(text)) return undefined;
  const started = `${text} ${scripts[scriptIn(readWords(simple)) ?? ""] ?? ""}`;
  const port = OWN_PORT.exec(started)?.slice(1).find(Boolean) ?? URL_PORT.exec(after)?.[1];
  // These two servers print nothing while their output goes to a pipe, so their usual port is checked.
  const usual = /\b(?:http\.server|runserver)\b/.test(started) ? 8000 : undefined;
  return { port: port === undefined ? usual : Number(port) };
}

const OWN_PORT =
  /(?:--port[= ]|\s-p[= ]?|\bPORT=|\b(?:localhost|127\.0\.0\.1|0\.0\.0\.0):|http\.server |runserver (?:\S+:)?)(\d{2,5})\b/;
const URL_PORT = /\b(?:localhost|127\.0\.0\.1|0\.0\.0\.0):(\d{2,5})\b/;
/** Whether a gate only starts servers in the foreground, for a person to look at. */
export function onlyServes(commands: readonly Statement[], command: string, scripts: PackageScripts): boolean {
  const checks = commands.filter((each) => !isPreparation(each.command));
  return (
    checks.length > 0 &&
    checks.every((each) => foregroundServer(each, command.slice(each.pos, each.end), "", scripts) !== undefined)
  );
}

function isPreparation(node: SyntaxNode): boolean {
  const simple = commandIn(node);
  return (
    simple !== undefined && ["", "cd", "echo", "printf", "export", "source", "."].includes(simple.name?.value ?? "")
  );
}

const FOREVER =
  /^(?:(?:cargo|go) run\b.* serve\b|(?:npx )?(?:next|vite|nuxt|astro)(?: dev)?$|(?:uv run |poetry run |python3? -m )?(?:uvicorn|hypercorn|gunicorn|daphne)\b|(?:uv run |poetry run )?flask (?:\S+ )*run\b|(?:uv run )?(?:streamlit|fastapi|mlflow) (?:run|dev|ui|server)\b|(?:uv run |poetry run )?python3? (?:\S*manage\.py runserver|-m http\.server)|rails s(?:erver)?\b|php -S\b|docker[ -]compose up(?!.* -d)|tail -[fF]|watch |(?:npx )?wrangler dev|cargo watch|air$|(?:mongod|redis-server|nodemon|ngrok)\b|(?:npx )?(?:serve|http-server|json-server|live-server)\b)/;
/** Matches names of scripts that run until they are ended. `start:basic` isn't included: it may run an example. */
const FOREVER_SCRIPT = /^(?:(?:[\w-]+:)*(?:dev|serve|watch)|start|(?:[\w-]+:)*start:dev)$/;
/** Matches the text of a package script that runs a server or watches files. */
const FOREVER_TEXT =
  /--watch\b|\b(?:nodemon|vite|next|nuxt|astro|webpack(?:-dev-server| serve)|ng serve|react-scripts start|expo start|http-server|live-server|tsx watch|nest start|concurrently)\b(?! (?:build|lint|check|preview|generate|export))/;

export function runsForEver(words: readonly string[], scripts: PackageScripts): boolean {
  if (words.some((word) => /^(?:--detach|-d|--help|--version)$/.test(word))) return false;
  if (words.includes("--watch") || words.includes("--watchAll")) return true;
  const script = scriptIn(words);
  if (script === undefined) return FOREVER.test(words.join(" "));
  const text = scripts[script];
  // If the script's text is unknown, its name decides.
  if (text === undefined) return FOREVER_SCRIPT.test(script);
  return FOREVER.test(text) || FOREVER_TEXT.test(text) || /^(?:dev|serve)$/.test(script);
}

/** Returns the name of the package script that a command runs. */
function scriptIn([manager = "", ...words]: readonly string[]): string | undefined {
  if (!/^(?:npm|pnpm|yarn|bun)$/.test(manager)) return undefined;
  const [verb = "", name] = words.filter((word) => !word.startsWith("-"));
  if (verb === "run" || verb === "run-script") return name;
  return /^(?:start|test)$/.test(verb) || (manager !== "npm" && verb !== "") ? verb : undefined;
}
