import { RunCancelledError, RunFailedError } from "waymark";
import { requireTaskToFollow } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { amountArgument } from "../measure-arguments.js";
import { plainJson } from "../plain-json.js";
import { jsonText, printableLines } from "../printable.js";
import { SECOND } from "../words.js";

export const wait: CommandFile = {
  example: "waymark wait build-42 --timeout 60",
  group: "workers",
  register(program, cli) {
    program
      .command("wait")
      .summary("wait for a result")
      .description(
        "Waits until a task's run has ended, and prints its result. Exits with 1 if it failed, with 6 if it was " +
          "cancelled or isn't done at the time limit; --json tells which.",
      )
      .argument("<task>")
      .option("--timeout <seconds>", "wait at most this long; default: without a limit", amountArgument)
      .option("--json", "for programs: the task's status, with its result or error")
      .action((task, { timeout, json }) =>
        cli.withStore(async (session) => {
          const taskId = await requireTaskToFollow(session, task);
          const stop = cli.interruptible();
          const limit = timeout === undefined ? undefined : AbortSignal.timeout(Math.ceil(timeout * SECOND));
          const manager = await session.configured();
          try {
            const result = await manager.result(taskId, { signal: AbortSignal.any(limit ? [stop, limit] : [stop]) });
            await (json ? printJson(session, taskId, "completed", { result }) : printResult(session, result));
          } catch (error) {
            if (stop.aborted) return;
            const isOver = limit?.aborted === true && error === limit.reason;
            const status = isOver ? await readStatus(session, taskId) : statusIn(error);
            const ended = isOver ? {} : { error: (error instanceof RunFailedError && error.cause) || error };
            if (json && status !== undefined) await printJson(session, taskId, status, ended);
            if (!isOver) throw error;
            const text = `Task ${JSON.stringify(taskId)} isn't done after ${timeout} s. It continues; wait again, or see "waymark show".`;
            throw new CommandError(ExitCode.conflict, text, { cause: error });
          }
        }),
      );
  },
};

function printJson({ output }: Session, taskId: string, status: string, ended: { result?: unknown; error?: unknown }) {
  const parts = Object.entries(ended).filter(([, part]) => part !== undefined);
  return output.line(
    jsonText({ taskId, status, ...Object.fromEntries(parts.map(([key, part]) => [key, plainJson(part)])) }),
  );
}

function printResult({ output, errors }: Session, result: unknown): Promise<void> {
  if (result === undefined) return errors.line("It is completed, without a result.");
  return output.line(typeof result === "string" ? printableLines(result) : jsonText(plainJson(result), 2));
}

/** Returns how a run ended without a result; `undefined` if the error has another cause. */
function statusIn(error: unknown): "failed" | "cancelled" | undefined {
  if (error instanceof RunFailedError) return "failed";
  return error instanceof RunCancelledError ? "cancelled" : undefined;
}

async function readStatus({ manager }: Session, taskId: string): Promise<string> {
  const [task] = await manager.tasks({ prefix: taskId, limit: 1 });
  // A task that has no checkpoint yet is just being started.
  return task?.taskId === taskId ? task.status : "running";
}
