import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { CheckpointConflictError } from "waymark";
import type { CommandFile, Session } from "../cli.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { jsonText } from "../printable.js";
import { showProgress } from "../progress.js";
import { type InsertResult, RecordInserter } from "../records/insert-record.js";
import { readExport } from "../records/stored-record.js";
import { isLogRecord } from "../records/whole-records.js";
import { checkpointsText } from "../words.js";

export const importCommand: CommandFile = {
  example: "waymark import backup.ndjson",
  register(program, cli) {
    program
      .command("import")
      .summary("read what export wrote")
      .description(
        "Stores the checkpoints of an export, with their ids, sequences and statuses. A file is checked as a whole before " +
          "anything is stored, and compared with the storage; standard input is checked line by line. Safe to repeat: " +
          "stored checkpoints are left as they are.",
      )
      .argument("[file]", "a file, or - for standard input; default: -")
      .option("--json", "for programs: how many were added, and how many existed")
      .action((file = "-", options) =>
        cli.withStore(async (session) => {
          const counts = file === "-" ? await importStandardInput(session) : await importFile(session, file);
          const { added, logRecords, present, otherStatus } = counts;
          if (options.json) await session.output.line(jsonText(counts));
          else {
            const other = otherStatus > 0 ? `, ${otherStatus} there already with another status, which stays` : "";
            const imported = added === 0 ? "nothing" : checkpointsText(added - logRecords, logRecords);
            await session.output.line(`Imported ${imported}; ${present} there already${other}.`);
          }
        }, "write"),
      );
  },
};

/** @property logRecords - How many of the added records aren't checkpoints. */
type Counts = Record<InsertResult | "logRecords", number>;

async function importStandardInput(session: Session): Promise<Counts> {
  if (session.stdin.isTTY) {
    throw new CommandError(ExitCode.usage, "Name a file, or pipe an export in: waymark import backup.ndjson.");
  }
  return importFrom(session, readBytes(session.stdin), "standard input");
}

async function* readBytes(stdin: Session["stdin"]): AsyncGenerator<Uint8Array, void, void> {
  for await (const chunk of stdin) yield typeof chunk === "string" ? Buffer.from(chunk) : chunk;
}

async function importFile(session: Session, path: string): Promise<Counts> {
  const { size } = await stat(path).catch((cause: unknown) => {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CommandError(ExitCode.notFound, `${path} can't be read: ${reason}. Nothing was imported.`, { cause });
  });
  const read = () => createReadStream(path, { highWaterMark: 256 * 1024 });
  const checks = { items: 0, logRecords: 0 };
  const outcome = () => {
    const { items, logRecords } = checks;
    if (items === 0) return "Nothing was imported.";
    const before = checkpointsText(items - logRecords, logRecords);
    return `Nothing was imported; to import the ${before} before it: waymark import - < ${path}`;
  };
  const progress = await showProgress("importing", () => 2 * size);
  try {
    const checked = read();
    const inserter = new RecordInserter(session.storage);
    for await (const { item, line } of readExport(checked, { from: path, outcome })) {
      await inserter.check(item).catch(refuse(`${path}, line ${line}`, () => "Nothing was imported."));
      checks.items += 1;
      if (isLogRecord(item)) checks.logRecords += 1;
      progress.reach(checked.bytesRead);
    }
    const imported = read();
    return await importFrom(session, imported, path, () => progress.reach(size + imported.bytesRead));
  } finally {
    progress.stop();
  }
}

async function importFrom(
  { storage }: Session,
  chunks: AsyncIterable<Uint8Array>,
  from: string,
  onRecord: () => void = () => undefined,
): Promise<Counts> {
  const counts: Counts = { added: 0, logRecords: 0, present: 0, otherStatus: 0 };
  const inserter = new RecordInserter(storage);
  const outcome = () => {
    const { added, present, otherStatus } = counts;
    return added + present + otherStatus === 0
      ? "Nothing was imported."
      : `The lines before it are imported: ${added} added, ${present + otherStatus} there already.`;
  };
  for await (const { item: record, line } of readExport(chunks, { from, outcome })) {
    const result = await inserter.insert(record).catch(refuse(`${from}, line ${line}`, outcome));
    counts[result] += 1;
    if (result === "added" && isLogRecord(record)) counts.logRecords += 1;
    onRecord();
  }
  return counts;
}

/** Returns a function that rethrows an error; a conflict becomes the command's own error. */
function refuse(position: string, outcome: () => string): (cause: unknown) => never {
  return (cause) => {
    if (!(cause instanceof CheckpointConflictError)) throw cause;
    throw new CommandError(
      ExitCode.conflict,
      `${position}: ${cause.message} ${outcome()} Import into an empty storage, or delete the task there first.`,
      { cause },
    );
  };
}
