import type { CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { projectConfig } from "../config-file.js";
import { findTasks, nameOf } from "../langgraph/find-tasks.js";
import { chooseStorage } from "../store.js";

const MOST_TASKS = 100;
const STORAGES = ["files:", "tasks:", "sqlite:", "postgres://"];
/** Text that needs no quoting in any shell and has no control characters. */
const PLAIN = /^[\w.@:/+-]+$/;

/**
 * Returns the candidates for the last word. If it fails, there are none: this runs at a keystroke, where an error
 * message would disturb.
 *
 * @param words - The words after `waymark`, up to the cursor; the last one may be empty or incomplete.
 */
export async function candidatesFor(program: CommandUnknownOpts, words: readonly string[]): Promise<string[]> {
  const current = words.at(-1) ?? "";
  const { command, positionals, openOption, asksForHelp, ...named } = read(program, words.slice(0, -1));
  const all = await (async () => {
    if (openOption !== undefined) return valuesOf(openOption);
    if (current.startsWith("-")) return [...optionsOf(command), ...optionsOf(program)];
    const subcommands = positionals > 0 ? [] : subcommandsOf(command).map((its) => its.name());
    if (asksForHelp) return subcommands;
    return subcommands.concat(await argumentCandidates(command, positionals, named, current));
  })();
  return [...new Set(all)].filter((candidate) => candidate.startsWith(current) && PLAIN.test(candidate));
}

interface Reading {
  readonly command: CommandUnknownOpts;
  readonly positionals: number;
  /** The option whose value comes next. */
  readonly openOption: Option | undefined;
  readonly storage: string | undefined;
  readonly config: string | undefined;
  /** After `help`, only names of commands are completed. */
  readonly asksForHelp: boolean;
}

function read(program: CommandUnknownOpts, words: readonly string[]): Reading {
  let command = program;
  let positionals = 0;
  let openOption: Option | undefined;
  const named: { storage: string | undefined; config: string | undefined } = { storage: undefined, config: undefined };
  const take = (option: string | undefined, value: string) => {
    if (option === "--storage") named.storage = value;
    if (option === "--config") named.config = value;
  };
  let asksForHelp = false;
  for (const word of words) {
    if (openOption !== undefined) {
      take(openOption.long, word);
      openOption = undefined;
    } else if (word.startsWith("-")) {
      const [name = word, value] = word.split("=", 2);
      // Takes the options that the help shows, because a command may show the options of its default subcommand.
      const options = [...command.createHelp().visibleOptions(command), ...program.options];
      const option = options.find(({ long, short }) => name === long || name === short);
      if (value === undefined) openOption = option?.required || option?.optional ? option : undefined;
      else take(name, value);
    } else {
      const subcommand = positionals > 0 ? undefined : subcommandsOf(command).find((its) => its.name() === word);
      if (subcommand === undefined) positionals += 1;
      else if (word === "help") asksForHelp = true;
      else command = subcommand;
    }
  }
  return { command, positionals, openOption, asksForHelp, ...named };
}

function subcommandsOf(command: CommandUnknownOpts): CommandUnknownOpts[] {
  return command.createHelp().visibleCommands(command);
}

function optionsOf(command: CommandUnknownOpts): string[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .flatMap(({ long }) => long ?? []);
}

function valuesOf({ long, argChoices }: Option): readonly string[] {
  return argChoices ?? (long === "--storage" || long === "--to" ? STORAGES : []);
}

async function argumentCandidates(
  command: CommandUnknownOpts,
  position: number,
  named: Pick<Reading, "storage" | "config">,
  current: string,
): Promise<string[]> {
  const argument =
    command.registeredArguments[position] ?? command.registeredArguments.findLast(({ variadic }) => variadic);
  if (argument?.argChoices !== undefined) return [...argument.argChoices];
  if (argument?.name() === "task") return taskCandidates(named, current).catch(() => []);
  if (argument?.name() === "feature") return featureCandidates().catch(() => []);
  return ["id", "a", "b"].includes(argument?.name() ?? "") ? ["@latest"] : [];
}

async function featureCandidates(): Promise<string[]> {
  const { CheckpointRepository } = await import("waymark/oneshot");
  return new CheckpointRepository().list();
}

async function taskCandidates({ storage: url, config }: Pick<Reading, "storage" | "config">, prefix: string) {
  const { storage } = await chooseStorage(url, () => projectConfig(config), "read");
  try {
    const names: string[] = [];
    const query = { order: "taskId", limit: MOST_TASKS, ...(prefix === "" ? undefined : { prefix }) } as const;
    // Warnings would disturb the line that the user is typing.
    for await (const task of findTasks({ storage, damage: { add: async () => undefined } }, query)) {
      names.push(nameOf(task));
      if (names.length === MOST_TASKS) break;
    }
    return names;
  } finally {
    await storage.close();
  }
}
