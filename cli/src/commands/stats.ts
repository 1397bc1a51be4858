import { bytesOnDisk } from "../bytes-on-disk.js";
import type { CommandFile } from "../cli.js";
import { jsonOption, jsonPrinter, ndjsonOption, printItems } from "../items.js";
import { countTasks, type StageStats, type TaskStats } from "../queries/stats.js";
import { printTable } from "../table.js";
import { bytesText, counted } from "../words.js";

export const stats: CommandFile = {
  example: "waymark stats --prefix build-",
  register(program, cli) {
    program
      .command("stats")
      .summary("counts and bytes")
      .description(
        "Counts checkpoints and the bytes of their states, by task and stage, and the bytes that the " +
          "storage takes on the disk. A database stores only the changes between states, so it may take far fewer.",
      )
      .option("--prefix <text>", "only tasks whose id begins with this")
      .addOption(jsonOption("task"))
      .addOption(ndjsonOption("task"))
      .action((options) =>
        cli.withStore(async (session) => {
          const { output } = session;
          const tasks = countTasks(session, options);
          const json = jsonPrinter(output, options);
          if (json) return void (await printItems(output, tasks, json));
          const total = { tasks: 0, checkpoints: 0, bytes: 0, records: 0, recordBytes: 0 };
          await printTable(output, makeRows(tasks, total), [
            { head: "TASK", flexible: true, cell: ({ taskId }) => taskId },
            { head: "STAGE", flexible: true, cell: ({ stage = "-" }) => stage },
            { head: "CHECKPOINTS", align: "right", cell: ({ checkpoints }) => String(checkpoints) },
            { head: "STATES", align: "right", cell: ({ bytes }) => bytesText(bytes) },
          ]);
          const all = `${counted(total.tasks, "task")}, ${counted(total.checkpoints, "checkpoint")}, ${bytesText(total.bytes)} of states`;
          const log =
            total.records === 0 ? "" : `, ${counted(total.records, "record")}, ${bytesText(total.recordBytes)}`;
          const bytes = await bytesOnDisk(session);
          const onDisk = bytes === undefined ? "" : `; the storage takes ${bytesText(bytes)} on the disk`;
          await output.line(output.colors.bold(`${all}${log}${onDisk}`));
        }),
      );
  },
};

/** Yields a row for each stage of each task, and adds each task to `total`. */
async function* makeRows(
  tasks: AsyncIterable<TaskStats>,
  total: { tasks: number; checkpoints: number; bytes: number; records: number; recordBytes: number },
): AsyncGenerator<StageStats & Pick<TaskStats, "taskId">, void, void> {
  for await (const { taskId, checkpoints, bytes, stages, records } of tasks) {
    total.tasks += 1;
    total.checkpoints += checkpoints;
    total.bytes += bytes;
    for (const kind of records) {
      total.records += kind.records;
      total.recordBytes += kind.bytes;
    }
    for (const stage of stages) yield { taskId, ...stage };
    if (stages.length === 0) yield { taskId, checkpoints, bytes };
  }
}
