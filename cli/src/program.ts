import { readFileSync } from "node:fs";
import { Command, type OutputConfiguration } from "@commander-js/extra-typings";
import type { Cli, GlobalOptions, Program } from "./cli.js";
import { COMMANDS } from "./commands/index.js";
import { printable } from "./printable.js";

/** The whole command, and what its commands run with. */
export function makeProgram(makeCli: (program: Program) => Cli): { readonly command: Program; readonly cli: Cli } {
  const program: Program = new Command<[], GlobalOptions>("waymark");
  program
    .version(version(), "-V, --version")
    .option("--storage <url>", "files:DIR, tasks:DIR or sqlite:FILE")
    .option("--verbose", "show what lies beneath an error")
    .helpCommand("help [command]", "the same as --help")
    .exitOverride()
    .configureOutput({ outputError: oneLine });
  const cli = makeCli(program);
  const rows = COMMANDS.map(({ example, register }) => {
    const first = program.commands.length;
    register(program, cli);
    const command = program.commands[first];
    command?.addHelpText("after", `\nExample: ${example}\nAlso: --storage URL, --verbose; see waymark --help`);
    return `  ${(command?.name() ?? "").padEnd(11)}${(command?.summary() ?? "").padEnd(24)}${example}`;
  });
  program.helpInformation = () => overview(rows);
  return { command: program, cli };
}

/** A line for each command, with an example of it, on one screen. */
function overview(rows: readonly string[]): string {
  return `${[
    "Usage: waymark <command> [options]     (waymark <command> --help says more)",
    ...rows,
    "Options: --storage URL: files:DIR, tasks:DIR, sqlite:FILE; default: the variable",
    "  WAYMARK_STORAGE, then storage in waymark.config.{js,mjs,json} or package.json",
    "  --json for programs, where a command's --help has it; --version;",
    "  --verbose for an error's causes",
    "A checkpoint is named by its id, its sequence (@7), or @latest.",
    "Exit: 0 done, 1 failed, 2 usage, 3 not found, 4 declined, 5 damaged, 6 conflict",
  ].join("\n")}\n`;
}

/** What commander has to say, which may have several lines, as one that says what to do next. */
const oneLine: NonNullable<OutputConfiguration["outputError"]> = (text, write) => {
  const message = text
    .replace(/^error: /, "")
    .trim()
    .replace(/\s*\n\s*/g, " ");
  write(`waymark: ${printable(message)}${/[.)]$/.test(message) ? "" : "."} See waymark --help.\n`);
};

function version(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  return typeof manifest === "object" && manifest !== null && "version" in manifest ? String(manifest.version) : "";
}
