import { Command, type CommandUnknownOpts, type OutputConfiguration } from "@commander-js/extra-typings";
import type { Cli, GlobalOptions, Program, Streams } from "./cli.js";
import { COMMANDS } from "./commands/index.js";
import { printable } from "./printable.js";
import { version } from "./version.js";

/** Returns the complete `waymark` command, and the Cli that its subcommands share. */
export function makeProgram(
  { stdout, stderr }: Pick<Streams, "stdout" | "stderr">,
  makeCli: (program: Program) => Cli,
): { readonly command: Program; readonly cli: Cli } {
  const program: Program = new Command<[], GlobalOptions>("waymark");
  program
    .version(version(), "-V, --version")
    .option("--storage <url>", "files:DIR, tasks:DIR, sqlite:FILE or postgres://…")
    .option("--config <file>", "default: waymark.config.js, .mjs, .ts or .json, here or above")
    .option("--verbose", "show the causes of an error")
    .helpCommand(false)
    .exitOverride()
    .configureOutput({
      outputError: oneLine,
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void stderr.write(text),
    });
  const cli = makeCli(program);
  const rows: string[] = [];
  const named = { workers: [] as string[], plans: [] as string[], "set up": [] as string[] };
  for (const { example, group, noStorage, register } of COMMANDS) {
    const first = program.commands.length;
    register(program, cli);
    const command = program.commands[first];
    const also = noStorage ? "--verbose" : "--storage URL, --config FILE, --verbose";
    command?.addHelpText("after", `\nExample: ${example}\nAlso: ${also}; see waymark --help`);
    const name = command?.name() ?? "";
    if (group !== undefined) named[group].push(name);
    else rows.push(`  ${name.padEnd(11)}${(command?.summary() ?? "").padEnd(24)}${example}`);
  }
  rows.push(`  Runs and workers: ${named.workers.join(", ")}`);
  rows.push(`  Plans: ${named.plans.join(", ")}`);
  rows.push(`  To set up: ${named["set up"].join(", ")}`);
  program.helpInformation = () => overview(rows);
  addHelpCommand(program);
  return { command: program, cli };
}

/** Commander's own help command supports only one level of commands. */
function addHelpCommand(program: Program): void {
  program
    .command("help")
    .description("Shows what --help shows: waymark help prp run.")
    .argument("[command...]")
    .action((names) => {
      let command: CommandUnknownOpts = program;
      for (const name of names) {
        const found = command.commands.find((subcommand) => subcommand.name() === name);
        command = found ?? command.error(`error: unknown command '${names.join(" ")}'`);
      }
      command.help();
    });
}

/** Lists the commands on one screen, each in a line with an example. The commands of a group share one line. */
function overview(rows: readonly string[]): string {
  return `${[
    "Usage: waymark <command> [options]     (waymark <command> --help says more)",
    ...rows,
    "--storage files:DIR, tasks:DIR, sqlite:FILE, postgres://…, or --config FILE",
    "Exit: 0 done, 1 failed, 2 usage, 3 not found, 4 declined, 5 damaged, 6 conflict",
  ].join("\n")}\n`;
}

/** Prints commander's error, which may have several lines, on one line that says what to do next. */
const oneLine: NonNullable<OutputConfiguration["outputError"]> = (text, write) => {
  const message = text
    .replace(/^error: /, "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join(" ");
  write(`waymark: ${printable(message)}${/[.)]$/.test(message) ? "" : "."} See waymark --help.\n`);
};
