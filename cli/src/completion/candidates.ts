import type { CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { checkpointsTask } from "waymark/langgraph/records";
import { projectConfig } from "../config-file.js";
import { describeTask, findTasks } from "../langgraph/find-tasks.js";
import { chooseStorage } from "../store.js";

const MOST_TASKS = 100;
const MOST_CHECKPOINTS = 20;
const STORAGES = ["files:", "tasks:", "sqlite:", "postgres://"];
/** Text that needs no quoting in any shell and has no control characters. */
const PLAIN = /^[\w.@:/+-]+$/;

/**
 * Returns the candidates for the last word. If it fails, there are none: this runs at a keystroke, where an error
 * message would disturb the user.
 *
 * @param words - The words after `waymark`, up to the cursor; the last one may be empty or incomplete.
 */
export async function candidatesFor(program: CommandUnknownOpts, words: readonly string[]): Promise<string[]> {
  const current = words.at(-1) ?? "";
  let command = program;
  let positionals = 0;
  let task = "";
  let openOption: Option | undefined;
  const options: Record<string, string> = {};
  for (const word of words.slice(0, -1)) {
    if (openOption !== undefined) {
      options[openOption.attributeName()] = word;
      openOption = undefined;
    } else if (word.startsWith("-")) {
      const [name = word, value] = word.split("=", 2);
      const option = listOptions(command, program).find(({ long, short }) => name === long || name === short);
      if (option !== undefined && value !== undefined) options[option.attributeName()] = value;
      else if (option?.required || option?.optional) openOption = option;
    } else {
      const subcommand = positionals > 0 ? undefined : listSubcommands(command).find((other) => other.name() === word);
      if (subcommand === undefined) {
        if (positionals === 0) task = word;
        positionals += 1;
      }
      if (subcommand !== undefined && word !== "help") command = subcommand;
    }
  }
  const all = async () => {
    if (openOption !== undefined) return listValues(openOption);
    if (current.startsWith("-")) return listOptions(command, program).flatMap(({ long }) => long ?? []);
    const subcommands = positionals > 0 ? [] : listSubcommands(command).map((other) => other.name());
    if (words[0] === "help") return subcommands;
    return subcommands.concat(await argumentCandidates(command, positionals, options, { task, current }));
  };
  return [...new Set(await all())].filter((candidate) => candidate.startsWith(current) && PLAIN.test(candidate));
}

function listSubcommands(command: CommandUnknownOpts): CommandUnknownOpts[] {
  return command.createHelp().visibleCommands(command);
}

/** Returns the options that the help shows, because a command may show the options of its default subcommand. */
function listOptions(command: CommandUnknownOpts, program: CommandUnknownOpts): Option[] {
  return [command, program].flatMap((other) => other.createHelp().visibleOptions(other));
}

function listValues({ long, argChoices }: Option): readonly string[] {
  return argChoices ?? (long === "--storage" || long === "--to" ? STORAGES : []);
}

async function argumentCandidates(
  command: CommandUnknownOpts,
  position: number,
  options: Readonly<Record<string, string>>,
  { task, current }: { readonly task: string; readonly current: string },
): Promise<readonly string[]> {
  const { registeredArguments: all } = command;
  const argument = all[position] ?? all.findLast(({ variadic }) => variadic);
  const name = argument?.name() ?? "";
  // A completion that can't read the storage offers nothing: a message would disturb the line that is being typed.
  if (name === "task") return taskCandidates(options, current).catch(() => []);
  if (name === "feature") {
    const { CheckpointRepository } = await import("waymark/oneshot");
    return new CheckpointRepository().list().catch(() => []);
  }
  if (["id", "a", "b"].includes(name)) return ["@latest", ...(await sequenceCandidates(options, task).catch(() => []))];
  return argument?.argChoices ?? [];
}

/** `@7` for each of the task's newest checkpoints. */
async function sequenceCandidates(options: Readonly<Record<string, string>>, task: string): Promise<string[]> {
  const { storage } = await chooseStorage(options["storage"], () => projectConfig(options["config"]), "read");
  try {
    const sequences: string[] = [];
    for (const taskId of [task, checkpointsTask({ threadId: task, namespace: "" })]) {
      for await (const { sequence } of storage.list({ taskId, order: "newest", limit: MOST_CHECKPOINTS })) {
        if (sequence !== undefined) sequences.push(`@${sequence}`);
      }
    }
    return sequences;
  } finally {
    await storage.close();
  }
}

async function taskCandidates(options: Readonly<Record<string, string>>, prefix: string): Promise<string[]> {
  const { storage } = await chooseStorage(options["storage"], () => projectConfig(options["config"]), "read");
  try {
    const names: string[] = [];
    const query = { order: "taskId", limit: MOST_TASKS, ...(prefix === "" ? undefined : { prefix }) } as const;
    // Warnings would disturb the line that the user is typing.
    for await (const task of findTasks({ storage, damage: { add: async () => undefined } }, query)) {
      if (names.push(describeTask(task)) === MOST_TASKS) break;
    }
    return names;
  } finally {
    await storage.close();
  }
}
