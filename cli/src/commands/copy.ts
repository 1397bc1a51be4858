import type { StorageAdapter } from "waymark";
import { sayNothingTo } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { type DamageSink, keyOf } from "../damage.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { jsonText } from "../printable.js";
import { showProgress } from "../progress.js";
import { type CopyResult, copyTask, type Difference } from "../records/copy-task.js";
import { countRecords, taskIds } from "../records/whole-records.js";
import { isSamePlace } from "../storage-place.js";
import { openTarget } from "../store.js";
import { counted } from "../words.js";

export const copy: CommandFile = {
  example: "waymark copy --to files:backup",
  register(program, cli) {
    program
      .command("copy")
      .summary("to another storage")
      .description(
        "Copies every task to another storage with its ids, sequences, statuses and errors, and compares all records. " +
          "After a kill, run it again: it continues from there.",
      )
      .requiredOption("--to <url>", "files:DIR, tasks:DIR, sqlite:FILE or postgres://…")
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--json", "for programs: the counts")
      .action((options) =>
        cli.withStore(async (session) => {
          const { output, place: source } = session;
          const { storage: target, place, name: to } = await openTarget(options.to);
          if (source && isSamePlace(place, source)) {
            throw new CommandError(ExitCode.usage, `${to} is the storage to copy from. Name another one with --to.`);
          }
          const result = await copyAll(session, target, options.prefix);
          const { records, identical, copied, extra, unreadable } = result;
          if (options.json) await output.line(jsonText(result));
          else {
            await output.line(`Copied ${counted(copied, "checkpoint")} to ${to}.`);
            if (extra > 0) await output.line(`${to} has ${counted(extra, "more checkpoint")} of these tasks.`);
            const lost =
              unreadable === 0
                ? ""
                : `; ${unreadable} can't be read, and ${unreadable === 1 ? "was" : "were"} not copied`;
            await output.line(output.colors.bold(`${identical} of ${records} identical${lost}`));
          }
          if (records === 0) await sayNothingTo("copy", session, options.prefix);
          const refused = records - identical - unreadable;
          // Damaged records were reported, and the exit code shows them.
          if (refused === 0) return;
          throw new CommandError(
            ExitCode.conflict,
            `${counted(refused, "checkpoint")} can't be copied, because they conflict with checkpoints in ${to}. Delete those tasks there, or copy to an empty storage.`,
          );
        }),
      );
  },
};

const SHOWN = 5;

async function copyAll(
  { storage, damage, errors }: Session,
  target: StorageAdapter,
  prefix: string | undefined,
): Promise<CopyResult> {
  const result: CopyResult = { records: 0, identical: 0, copied: 0, extra: 0, unreadable: 0 };
  // Each checkpoint counts twice: it is copied and compared.
  const progress = await showProgress("copying", async () => 2 * (await countRecords(storage, prefix)));
  // Counts each record once: listing, copying and comparing meet the same damage.
  const unreadable = new Set<string>();
  const from: DamageSink = {
    add: (record) => {
      unreadable.add(keyOf(record));
      return damage.add(record);
    },
  };
  let differences = 0;
  const onDifference = async ({ taskId, id, sequence, reason }: Difference): Promise<void> => {
    differences += 1;
    if (differences > SHOWN) return;
    await damage.warn(`checkpoint ${id} (@${sequence}) of task ${JSON.stringify(taskId)} differs: ${reason}`);
  };
  try {
    for await (const taskId of taskIds(storage, prefix, from)) {
      await copyTask(
        { from: storage, to: target, damage: { from, to: damage }, progress, onDifference },
        taskId,
        result,
      );
      progress.reach(2 * result.records);
    }
  } finally {
    progress.stop();
    await target.close();
  }
  result.unreadable = unreadable.size;
  result.records += unreadable.size;
  if (differences > SHOWN) await errors.line(`and ${differences - SHOWN} more`);
  return result;
}
