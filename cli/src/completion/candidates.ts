import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { isCorrupt } from "waymark/adapter";
import { Damage } from "../damage.js";
import { openStore } from "../store.js";

const MOST_TASKS = 100;
const STORAGES = ["files:", "tasks:", "sqlite:"];
/** Text that needs no quoting in any shell and has no control characters. */
const PLAIN = /^[\w.@:/+-]+$/;

/**
 * The candidates for the last word. A failure gives no candidates: this runs at a keystroke.
 *
 * @param words - The words after `waymark`, up to the cursor; the last one may be empty or incomplete.
 */
export async function candidatesFor(program: CommandUnknownOpts, words: readonly string[]): Promise<string[]> {
  const before = words.slice(0, -1);
  const current = words.at(-1) ?? "";
  const { command, positionals, openOption, storage } = read(program, before);
  const all = await (async () => {
    if (openOption !== undefined) return openOption === "--storage" || openOption === "--to" ? STORAGES : [];
    if (current.startsWith("-")) return optionsOf(command).concat(optionsOf(program));
    if (command === program) return visibleCommands(program);
    return argumentCandidates(command, positionals, storage, current);
  })();
  return [...new Set(all)].filter((candidate) => candidate.startsWith(current) && PLAIN.test(candidate));
}

interface Reading {
  readonly command: CommandUnknownOpts;
  readonly positionals: number;
  /** The option whose value comes next. */
  readonly openOption: string | undefined;
  readonly storage: string | undefined;
}

function read(program: CommandUnknownOpts, words: readonly string[]): Reading {
  let command = program;
  let positionals = 0;
  let openOption: string | undefined;
  let storage: string | undefined;
  for (const word of words) {
    if (openOption !== undefined) {
      if (openOption === "--storage") storage = word;
      openOption = undefined;
    } else if (word.startsWith("-")) {
      const [name = word, value] = word.split("=", 2);
      if (name === "--storage" && value !== undefined) storage = value;
      const option = [...command.options, ...program.options].find(
        ({ long, short }) => name === long || name === short,
      );
      if ((option?.required || option?.optional) && value === undefined) openOption = name;
    } else if (command === program) {
      command = program.commands.find((candidate) => candidate.name() === word) ?? program;
    } else positionals += 1;
  }
  return { command, positionals, openOption, storage };
}

function optionsOf(command: CommandUnknownOpts): string[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .flatMap(({ long }) => long ?? []);
}

function visibleCommands(program: CommandUnknownOpts): string[] {
  return program.commands.map((command) => command.name()).filter((name) => !name.startsWith("_"));
}

async function argumentCandidates(
  command: CommandUnknownOpts,
  position: number,
  storage: string | undefined,
  current: string,
): Promise<string[]> {
  const argument =
    command.registeredArguments[position] ?? command.registeredArguments.findLast(({ variadic }) => variadic);
  if (argument?.argChoices !== undefined) return [...argument.argChoices];
  if (argument?.name() === "task") return taskCandidates(storage, current).catch(() => []);
  return ["id", "a", "b"].includes(argument?.name() ?? "") ? ["@latest"] : [];
}

async function taskCandidates(storage: string | undefined, prefix: string): Promise<string[]> {
  // Warnings would disturb the line that the user is typing.
  const store = await openStore(storage, "read", new Damage(async () => undefined));
  try {
    const ids: string[] = [];
    const query = { order: "taskId", limit: MOST_TASKS, ...(prefix === "" ? undefined : { prefix }) } as const;
    for await (const task of store.storage.tasks(query)) if (!isCorrupt(task)) ids.push(task.taskId);
    return ids;
  } finally {
    await store.storage.close();
  }
}
