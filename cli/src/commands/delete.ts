import type { SaveOptions } from "waymark";
import { findDamage, isCorrupt } from "waymark/adapter";
import { findStored, requireTaskToChange, titleOf } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { confirm } from "../confirm.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { refuseThread, tasksOf, wholeThread } from "../langgraph/find-tasks.js";
import { underLease } from "../leases.js";
import { jsonText } from "../printable.js";
import { isWhole } from "../records/stored-record.js";
import { bytesText, counted } from "../words.js";

export const deleteCommand: CommandFile = {
  example: "waymark delete build-42 @3 --yes",
  register(program, cli) {
    program
      .command("delete")
      .summary("remove checkpoints")
      .description(
        "Removes a task with all its checkpoints, or one checkpoint, damaged or not. ID is an id, @7 or @latest. " +
          "A thread of LangGraph is only removed as a whole. This can't be undone.",
      )
      .argument("<task>")
      .argument("[id]")
      .option("--yes", "don't ask")
      .option("--force", "remove it even while somebody runs the task")
      .option("--json", "for programs: how many were removed")
      .action((task, id, options) =>
        cli.withStore(async (session) => {
          const taskId = await requireTaskToChange(session, task);
          const doomed = id === undefined ? await wholeTask(session, taskId) : await oneOf(session, taskId, id);
          await confirm(session, `Remove ${doomed.what} from ${session.name}?`, options.yes === true);
          const removed = await underLease(session, taskId, options.force === true, doomed.remove);
          const { damaged } = doomed;
          if (options.json) await session.output.line(jsonText({ removed, damaged }));
          else {
            const which = damaged === 0 ? "" : `, ${damaged} of them damaged`;
            await session.output.line(`Removed ${counted(removed, "checkpoint")}${which}.`);
          }
        }),
      );
  },
};

/** The checkpoints to remove. Damaged ones count: no other command removes them. */
interface Doomed {
  /** Names them in the question. */
  readonly what: string;
  readonly damaged: number;
  readonly remove: (under: Pick<SaveOptions, "lease">) => Promise<number>;
}

async function wholeTask(session: Session, taskId: string): Promise<Doomed> {
  const { storage, manager } = session;
  const thread = wholeThread(taskId);
  if (thread === undefined) refuseThread(taskId, "To remove the whole thread, name it.");
  let count = 0;
  let bytes = 0;
  let damaged = 0;
  for await (const id of tasksOf(session, taskId)) {
    for await (const record of storage.read({ taskId: id, order: "newest" })) {
      count += 1;
      if (!isCorrupt(record)) bytes += record.sizeBytes;
      if (!isWhole(record)) damaged += 1;
    }
  }
  const size = damaged === 0 ? bytesText(bytes) : `${bytesText(bytes)}; ${damaged} of them damaged`;
  const name = thread === undefined ? `task ${JSON.stringify(taskId)}` : `thread ${JSON.stringify(thread.id)}`;
  const what = `${name} with ${counted(count, thread === undefined ? "checkpoint" : "record")} (${size})`;
  return {
    what,
    damaged,
    remove: (under) => (thread ? manager.removeTasks({ prefix: thread.prefix }) : manager.removeTask(taskId, under)),
  };
}

async function oneOf(session: Session, taskId: string, word: string): Promise<Doomed> {
  refuseThread(taskId, "Without an ID, the whole thread is removed; WaymarkSaver.prune removes old checkpoints.");
  const { storage, manager } = session;
  const found = await findStored(session, taskId, word);
  // If damage destroyed the id, the word was the sequence.
  const id = found.id ?? word;
  const stored = isCorrupt(found) ? found : await storage.get(taskId, id);
  const damage = stored && (isCorrupt(stored) ? stored.reason : findDamage(stored));
  const title = isCorrupt(found) ? `${word} (${found.location})` : titleOf(found);
  const checkpoint = damage === undefined ? `checkpoint ${title}` : `damaged checkpoint ${title}, ${damage},`;
  const remove: Doomed["remove"] = async (under) => {
    if (await manager.remove(taskId, id, under)) return 1;
    if (!isCorrupt(found)) return 0;
    throw new CommandError(
      ExitCode.damaged,
      `Checkpoint ${word} of task ${JSON.stringify(taskId)} can't be identified, so it can't be removed alone: ` +
        `${found.reason} (${found.location}). It was left untouched. "waymark repair" moves it to quarantine; without an ID, "waymark delete" removes the whole task.`,
      { cause: found.cause },
    );
  };
  return { what: `${checkpoint} of task ${JSON.stringify(taskId)}`, damaged: damage === undefined ? 0 : 1, remove };
}
