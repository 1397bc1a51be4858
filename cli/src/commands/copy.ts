import { copyTasks, type Difference } from "../actions/copy.js";
import { sayNothingTo } from "../checkpoints.js";
import type { CommandFile } from "../cli.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { describeTask } from "../langgraph/find-tasks.js";
import { jsonText } from "../printable.js";
import { showProgress } from "../progress.js";
import { countRecords } from "../records/whole-records.js";
import { isSameLocation } from "../storage-location.js";
import { openTarget } from "../store.js";
import { checkpointsText, counted } from "../words.js";

export const copy: CommandFile = {
  example: "waymark copy --to files:backup",
  register(program, cli) {
    program
      .command("copy")
      .summary("to another storage")
      .description(
        "Copies every task to another storage with its events, log, ids, sequences, statuses and errors, and compares all records. " +
          "After a kill, run it again: it continues from there.",
      )
      .requiredOption("--to <url>", "files:DIR, tasks:DIR, sqlite:FILE or postgres://…")
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--json", "for programs: the counts")
      .action((options) =>
        cli.withStore(async (session) => {
          const { output, errors, storage, damage, location: source } = session;
          const { prefix } = options;
          const { storage: target, location, name: to } = await openTarget(options.to);
          if (source && isSameLocation(location, source)) {
            throw new CommandError(ExitCode.usage, `${to} is the storage to copy from. Name another one with --to.`);
          }
          const progress = await showProgress("copying", async () => 2 * (await countRecords(storage, prefix)));
          let differences = 0;
          const onDifference = async ({ taskId, what, sequence, reason }: Difference): Promise<void> => {
            differences += 1;
            if (differences > SHOWN) return;
            await damage.warn(`${what} (@${sequence}) of task ${JSON.stringify(taskId)} differs: ${reason}`);
          };
          const onLeftOut = async (taskId: string, reason: string): Promise<void> => {
            await damage.warn(`task ${JSON.stringify(describeTask({ taskId }))} was left out: ${reason}`);
          };
          const onProgress = (done: number) => progress.reach(done);
          const job = { from: storage, to: target, prefix, damage, onProgress, onDifference, onLeftOut };
          const result = await copyTasks(job).finally(async () => {
            progress.stop();
            await target.close();
          });
          if (differences > SHOWN) await errors.line(`and ${differences - SHOWN} more`);
          const { records, identical, copied, logRecords, extra, unreadable, leftOut } = result;
          if (options.json) await output.line(jsonText(result));
          else {
            await output.line(`Copied ${checkpointsText(copied - logRecords, logRecords)} to ${to}.`);
            if (extra > 0) await output.line(`${to} has ${counted(extra, "more checkpoint")} of these tasks.`);
            const lost =
              unreadable === 0
                ? ""
                : `; ${unreadable} can't be read, and ${unreadable === 1 ? "was" : "were"} not copied`;
            await output.line(output.colors.bold(`${identical} of ${records} identical${lost}`));
          }
          if (records === 0) await sayNothingTo("copy", session, prefix);
          const reasons: string[] = [];
          if (leftOut.length > 0) {
            const [were, them] = leftOut.length === 1 ? ["was", "it"] : ["were", "them"];
            reasons.push(
              `${counted(leftOut.length, "task")} ${were} left out, because ${to} has another history of ${them}.`,
            );
          }
          if (differences > 0) {
            reasons.push(
              `${counted(differences, "checkpoint")} can't be copied, because they conflict with checkpoints in ${to}.`,
            );
          }
          // Damaged records were already reported, and the exit code shows them.
          if (reasons.length === 0) return;
          reasons.push("Delete those tasks there, or copy to an empty storage.");
          throw new CommandError(ExitCode.conflict, reasons.join(" "));
        }),
      );
  },
};

const SHOWN = 5;
