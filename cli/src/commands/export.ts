import { requireTask, sayNothingTo } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { listTasks } from "../langgraph/find-tasks.js";
import { showProgress } from "../progress.js";
import { CheckedLinesWriter } from "../records/checked-lines.js";
import { LineFile } from "../records/line-file.js";
import { EXPORT_FORMAT, recordJson } from "../records/stored-record.js";
import { countRecords, isLogRecord, taskIds, wholeItems } from "../records/whole-records.js";
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
            const written = await writeExport(session, chosen, (text) => (file ?? output).line(text));
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

/** Writes header, records and trailer. If the reader is gone, it stops early. */
async function writeExport(
  { storage, damage, output }: Session,
  tasks: Iterable<string> | AsyncIterable<string>,
  writeLine: (text: string) => Promise<void>,
): Promise<Readonly<Record<"records" | "logRecords" | "tasks", number>>> {
  const lines = new CheckedLinesWriter(writeLine);
  let written = 0;
  let logRecords = 0;
  await lines.header(EXPORT_FORMAT, { exportedAt: new Date().toISOString() });
  const progress = await showProgress("exporting", () => countRecords(storage));
  try {
    for await (const taskId of tasks) {
      written += 1;
      for await (const record of wholeItems(storage, { taskId }, damage)) {
        if (output.isClosed) break;
        await lines.record(recordJson(record));
        if (isLogRecord(record)) logRecords += 1;
        progress.advance();
      }
      if (output.isClosed) break;
    }
  } finally {
    progress.stop();
  }
  await lines.trailer({ tasks: written, damaged: damage.count });
  return { records: lines.records, logRecords, tasks: written };
}
