import { damageIn, isCorrupt } from "waymark/adapter";
import { findStored, requireTask, titleOf } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { confirm } from "../confirm.js";
import { CommandError, ExitCode } from "../exit-code.js";
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
        "Removes a task with all its checkpoints, or one of them, damaged or not: ID is an id, @7 or @latest. " +
          "It can't be undone.",
      )
      .argument("<task>")
      .argument("[id]")
      .option("--yes", "don't ask")
      .option("--json", "for programs: how many were removed")
      .action((task, id, options) =>
        cli.withStore(async (session) => {
          const taskId = await requireTask(session, task);
          const doomed = id === undefined ? await wholeTask(session, taskId) : await oneOf(session, taskId, id);
          await confirm(session, `Remove ${doomed.what} from ${session.name}?`, options.yes === true);
          const removed = await doomed.remove();
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

/** What would be removed. Damaged checkpoints count: this is the only command that removes them. */
interface Doomed {
  /** For the question. */
  readonly what: string;
  readonly damaged: number;
  readonly remove: () => Promise<number>;
}

async function wholeTask({ storage, manager }: Session, taskId: string): Promise<Doomed> {
  let count = 0;
  let bytes = 0;
  let damaged = 0;
  for await (const record of storage.read({ taskId, order: "newest" })) {
    count += 1;
    if (!isCorrupt(record)) bytes += record.sizeBytes;
    if (!isWhole(record)) damaged += 1;
  }
  const size = damaged === 0 ? bytesText(bytes) : `${bytesText(bytes)}; ${damaged} of them damaged`;
  const what = `task ${JSON.stringify(taskId)} with ${counted(count, "checkpoint")} (${size})`;
  return { what, damaged, remove: () => manager.removeTask(taskId) };
}

async function oneOf(session: Session, taskId: string, word: string): Promise<Doomed> {
  const { storage, manager } = session;
  const found = await findStored(session, taskId, word);
  // Damage may have destroyed the id; then the word was its sequence.
  const id = found.id ?? word;
  const stored = isCorrupt(found) ? found : await storage.get(taskId, id);
  const damage = stored && (isCorrupt(stored) ? stored.reason : damageIn(stored));
  const title = isCorrupt(found) ? `${word} (${found.location})` : titleOf(found);
  const checkpoint = damage === undefined ? `checkpoint ${title}` : `damaged checkpoint ${title}, ${damage},`;
  const remove = async () => {
    if (await manager.remove(taskId, id)) return 1;
    if (!isCorrupt(found)) return 0;
    throw new CommandError(
      ExitCode.damaged,
      `Checkpoint ${word} of task ${JSON.stringify(taskId)} can't be identified, so it can not be removed alone: ` +
        `${found.reason} (${found.location}). It was left untouched. "waymark repair" moves it away, or remove the whole task.`,
      { cause: found.cause },
    );
  };
  return { what: `${checkpoint} of task ${JSON.stringify(taskId)}`, damaged: damage === undefined ? 0 : 1, remove };
}
