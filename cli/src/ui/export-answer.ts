import { CommandError, ExitCode } from "../exit-code.js";
import { describeTask, listTasks } from "../langgraph/find-tasks.js";
import { writeExport } from "../records/export-lines.js";
import type { Queries } from "./api.js";
import type { ExportAnswer } from "./api-tasks.js";
import { exportFileName } from "./offered-commands.js";
import type { PageSession } from "./page-session.js";

/** Browsers hold the whole file in memory. */
const MOST_UNITS = 64 * 1024 * 1024;

export async function answerExport(
  { storage, damage, commandText }: PageSession,
  { taskId }: Queries["export"]["request"],
  signal: AbortSignal,
): Promise<ExportAnswer> {
  const name = describeTask({ taskId });
  const fileName = exportFileName(name);
  const lines: string[] = [];
  let units = 0;
  const writeLine = async (line: string) => {
    signal.throwIfAborted();
    units += line.length + 1;
    if (units > MOST_UNITS) {
      const command = commandText("export", [name], ["--out", fileName]);
      throw new CommandError(ExitCode.usage, `The task is too large for a download of the page. Run: ${command}`);
    }
    lines.push(line);
  };
  await writeExport(listTasks({ storage, damage }, taskId), writeLine, {
    storage,
    damage,
    countDamaged: () => damage.total,
  });
  return { fileName, text: `${lines.join("\n")}\n` };
}
