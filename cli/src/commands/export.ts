import { createHash } from "node:crypto";
import { requireTask, sayNothingTo } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { showProgress } from "../progress.js";
import { ExportFile } from "../records/export-file.js";
import { type ExportHeader, type ExportTrailer, type LineKind, renderLine } from "../records/record-line.js";
import { recordJson } from "../records/stored-record.js";
import { countRecords, taskIds, wholeRecords } from "../records/whole-records.js";
import { counted } from "../words.js";

export const exportCommand: CommandFile = {
  example: "waymark export --out backup.ndjson",
  register(program, cli) {
    program
      .command("export")
      .summary("checkpoints as NDJSON")
      .description(
        "Writes whole checkpoints as lines of JSON, each with its checksum, and a trailer that shows that all are " +
          "there. Default: every task, to standard output.",
      )
      .argument("[task...]")
      .option("--prefix <text>", "only tasks whose id begins with this")
      .option("--out <file>", "to a new file; an existing one is refused")
      .action((tasks, options) =>
        cli.withStore(async (session) => {
          const { storage, damage, output } = session;
          for (const taskId of tasks) await requireTask(session, taskId);
          const chosen = tasks.length > 0 ? new Set(tasks) : taskIds(storage, options.prefix, damage);
          if (options.out === undefined) {
            const { records } = await writeExport(session, chosen, (text) => output.line(text));
            if (records === 0 && !output.isClosed) await sayNothingTo("export", session, options.prefix);
            return;
          }
          const file = await ExportFile.create(options.out);
          try {
            const trailer = await writeExport(session, chosen, (text) => file.line(text));
            await file.end();
            await output.line(
              `Exported ${counted(trailer.records, "checkpoint")} of ${counted(trailer.tasks, "task")}.`,
            );
            if (trailer.records === 0) await sayNothingTo("export", session, options.prefix);
          } finally {
            await file.close();
          }
        }),
      );
  },
};

/** Writes header, records and trailer. It ends early if the reader is gone. */
async function writeExport(
  { storage, damage, output }: Session,
  tasks: Iterable<string> | AsyncIterable<string>,
  writeLine: (text: string) => Promise<void>,
): Promise<ExportTrailer> {
  const lines = createHash("sha256");
  const write = async (kind: LineKind, value: unknown): Promise<void> => {
    const { sha256, text } = renderLine(kind, value);
    lines.update(sha256);
    await writeLine(text);
  };
  const counts = { records: 0, tasks: 0 };
  const header: ExportHeader = { format: "waymark-export", version: 1, exportedAt: new Date().toISOString() };
  await write("header", header);
  const progress = await showProgress("exporting", () => countRecords(storage));
  try {
    for await (const taskId of tasks) {
      counts.tasks += 1;
      for await (const record of wholeRecords(storage, { taskId, order: "oldest" }, damage)) {
        if (output.isClosed) break;
        await write("record", recordJson(record));
        counts.records += 1;
        progress.advance();
      }
      if (output.isClosed) break;
    }
  } finally {
    progress.stop();
  }
  const trailer: ExportTrailer = { ...counts, damaged: damage.count, lines: lines.digest("hex") };
  await writeLine(renderLine("trailer", trailer).text);
  return trailer;
}
