import { requireTask, sayNothingTo } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { listTasks } from "../langgraph/find-tasks.js";
import { showProgress } from "../progress.js";
import { writeExport } from "../records/export-lines.js";
import { LineFile } from "../records/line-file.js";
import { countRecords, taskIds } from "../records/whole-records.js";
import { checkpointsText, counted } from "../words.js";

export const exportCommand: CommandFile = {
  example: "waymark export --out backup.ndjson",
  register(program, cli) {
    program
      .command("export")
      .summary("checkpoints as NDJSON")
      .description(
        "Writes each checkpoint and each record of the logs as a line of JSON with its checksum, then a trailer that shows that no line " +
          "is missing. Default: every task, to standard output.",
      )
      .argument("[task...]")
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--out <file>", "to a new file; an existing one is refused")
      .action((tasks, options) =>
        cli.withStore(async (session) => {
          const { storage, damage, output } = session;
          const named = new Set<string>();
          for (const task of tasks) {
            for await (const id of listTasks(session, await requireTask(session, task, { orRecordsOnly: true })))
              named.add(id);
          }
          const chosen = tasks.length > 0 ? named : taskIds(storage, options.prefix, damage);
          const { out } = options;
          const file = out === undefined ? undefined : await LineFile.create(out, "Nothing was exported.");
          try {
            const written = await exportWithProgress(session, chosen, (text) => (file ?? output).line(text));
            await file?.end();
            const { records, logRecords } = written;
            if (file) {
              const exported = checkpointsText(records - logRecords, logRecords);
              await output.line(`Exported ${exported} of ${counted(written.tasks, "task")}.`);
            }
            if (records === 0 && !output.isClosed) await sayNothingTo("export", session, options.prefix);
          } finally {
            await file?.close();
          }
        }),
      );
  },
};

/** Like {@link writeExport}, with a progress bar. */
async function exportWithProgress(
  { storage, damage, output }: Session,
  tasks: Iterable<string> | AsyncIterable<string>,
  writeLine: (text: string) => Promise<void>,
): ReturnType<typeof writeExport> {
  const progress = await showProgress("exporting", () => countRecords(storage));
  const [isClosed, onRecord] = [() => output.isClosed, () => progress.advance()];
  try {
    return await writeExport(tasks, writeLine, {
      storage,
      damage,
      countDamaged: () => damage.count,
      isClosed,
      onRecord,
    });
  } finally {
    progress.stop();
  }
}
