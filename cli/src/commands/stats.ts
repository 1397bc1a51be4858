import { isCorrupt } from "waymark/adapter";
import { bytesOnDisk } from "../bytes-on-disk.js";
import type { CommandFile, Session } from "../cli.js";
import { itemPrinter, jsonOption, ndjsonOption } from "../json-array.js";
import { findTasks, nameOf, tasksOf } from "../langgraph/find-tasks.js";
import { TablePrinter } from "../table.js";
import { bytesText, counted } from "../words.js";

export const stats: CommandFile = {
  example: "waymark stats --prefix build-",
  register(program, cli) {
    program
      .command("stats")
      .summary("counts and bytes")
      .description(
        "How many checkpoints there are and how many bytes their states have, by task and stage; and how many bytes the " +
          "storage takes on the disk. A database stores what changed between states, so it may take far fewer.",
      )
      .option("--prefix <text>", "only tasks whose id begins with this")
      .addOption(jsonOption("task"))
      .addOption(ndjsonOption("task"))
      .action((options) =>
        cli.withStore(async (session) => {
          const { output } = session;
          const json = itemPrinter(output, options);
          const table = new TablePrinter(output, [
            { head: "TASK", flexible: true },
            { head: "STAGE", flexible: true },
            { head: "CHECKPOINTS", align: "right" },
            { head: "STATES", align: "right" },
          ]);
          const total = { tasks: 0, checkpoints: 0, bytes: 0 };
          for await (const task of findTasks(session, { order: "taskId", prefix: options.prefix })) {
            if (output.isClosed) break;
            const taskId = nameOf(task);
            const stages = await stagesOf(session, task.taskId);
            const checkpoints = sum(stages.map((stage) => stage.checkpoints));
            const bytes = sum(stages.map((stage) => stage.bytes));
            total.tasks += 1;
            total.checkpoints += checkpoints;
            total.bytes += bytes;
            if (json) await json.add({ taskId, checkpoints, bytes, stages });
            else
              for (const stage of stages)
                await table.add(taskId, stage.stage ?? "-", String(stage.checkpoints), bytesText(stage.bytes));
          }
          if (json) await json.end();
          else {
            await table.end();
            const { bold } = output.colors;
            const all = `${counted(total.tasks, "task")}, ${counted(total.checkpoints, "checkpoint")}, ${bytesText(total.bytes)} of states`;
            const bytes = await bytesOnDisk(session);
            await output.line(
              bold(bytes === undefined ? all : `${all}; the storage takes ${bytesText(bytes)} on the disk`),
            );
          }
        }),
      );
  },
};

interface StageStats {
  /** `undefined` for checkpoints without a stage. */
  readonly stage?: string;
  readonly checkpoints: number;
  readonly bytes: number;
}

/** The stages, in the order in which the task reached them. A thread's writes count too. */
async function stagesOf(session: Session, taskId: string): Promise<StageStats[]> {
  const stages = new Map<string | undefined, { checkpoints: number; bytes: number }>();
  for await (const id of tasksOf(session, taskId)) {
    for await (const checkpoint of session.storage.list({ taskId: id, order: "oldest" })) {
      if (isCorrupt(checkpoint)) {
        await session.damage.add(checkpoint);
        continue;
      }
      const counts = stages.get(checkpoint.stage) ?? { checkpoints: 0, bytes: 0 };
      counts.checkpoints += 1;
      counts.bytes += checkpoint.sizeBytes;
      stages.set(checkpoint.stage, counts);
    }
  }
  return [...stages].map(([stage, counts]) => ({ ...(stage === undefined ? undefined : { stage }), ...counts }));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
