import { requireTaskToFollow } from "../checkpoints.js";
import type { CommandFile } from "../cli.js";
import { countArgument } from "../measure-arguments.js";
import type { Output } from "../output.js";
import { plainJson } from "../plain-json.js";
import { jsonText, printable, printableLines } from "../printable.js";
import { type FollowedRecord, recordLine } from "../record-text.js";

export const logs: CommandFile = {
  example: "waymark logs build-42 --follow",
  group: "workers",
  register(program, cli) {
    program
      .command("logs")
      .summary("a task's records")
      .description(
        "The records of a task, the oldest first: steps, events, checkpoints, and what steps write while they run. " +
          "Times are UTC.",
      )
      .argument("<task>")
      .option("-f, --follow", "wait for more until the task is completed or failed; Ctrl-C ends it")
      .option("--after <sequence>", "only records after @7", countArgument(0))
      .option("--json", "for programs: JSON, one record per line")
      .action((task, { follow, after: afterSequence, json }) =>
        cli.withStore(async (session) => {
          const taskId = await requireTaskToFollow(session, task);
          const manager = await session.configured();
          const signal = follow ? cli.interruptible() : undefined;
          const records = follow
            ? manager.follow(taskId, { afterSequence, signal })
            : manager.records(taskId, { afterSequence });
          const lines = new RecordLines(session.output);
          try {
            for await (const record of records) {
              await (json ? session.output.line(jsonText(plainJson(record))) : lines.add(record));
              if (follow) await session.output.flush();
              if (session.output.isClosed) return;
            }
          } catch (error) {
            if (!signal?.aborted) throw error;
          } finally {
            await lines.end();
          }
        }),
      );
  },
};

/** Prints records as lines. Chunks of text from a step are printed unchanged, so that they read as one text. */
class RecordLines {
  readonly #output: Output;
  #isLineOpen = false;

  constructor(output: Output) {
    this.#output = output;
  }

  async add(record: FollowedRecord): Promise<void> {
    const text = readChunk(record);
    if (text === undefined) {
      await this.end();
      await this.#output.line(printable(recordLine(record)));
    } else if (text !== "") {
      this.#isLineOpen = !text.endsWith("\n");
      await this.#output.text(printableLines(text));
    }
  }

  /** Ends the line if a chunk has left it open. */
  async end(): Promise<void> {
    if (this.#isLineOpen) await this.#output.line();
    this.#isLineOpen = false;
  }
}

/** Returns the text of a chunk that a step wrote; `undefined` for any other record. */
function readChunk({ kind, ...record }: FollowedRecord): string | undefined {
  if (kind !== "chunk" || !("value" in record)) return undefined;
  const { value } = record;
  const chunk = typeof value === "object" && value !== null && "chunk" in value ? value.chunk : undefined;
  return typeof chunk === "string" ? chunk : undefined;
}
