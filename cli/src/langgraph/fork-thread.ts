import type { CheckpointSummary } from "waymark";
import { checkpointsTask, copyThread, threadOf } from "waymark/langgraph/records";
import { titleOf } from "../checkpoints.js";
import type { Session } from "../cli.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { underLease } from "../leases.js";
import { jsonText, printable } from "../printable.js";
import { counted } from "../words.js";

/** Starts a thread with the history of another one, up to one of its checkpoints. */
export async function forkThread(
  session: Session,
  source: CheckpointSummary,
  newThread: string,
  { force, json }: { readonly force?: true | undefined; readonly json?: true | undefined },
): Promise<void> {
  const from = threadOf(source.taskId, source.metadata)?.threadId ?? "";
  const taskId = checkpointsTask({ threadId: newThread, namespace: "" });
  if (await session.manager.has(newThread)) {
    const what = `Task ${JSON.stringify(newThread)} has checkpoints already, and a thread can't have the same name`;
    throw new CommandError(ExitCode.conflict, `${what}. Nothing was stored; name another thread.`);
  }
  const { transforms } = await session.config();
  const { storage, output } = session;
  const checkpoints = await underLease(session, taskId, force === true, () =>
    copyThread({ storage, transforms }, from, newThread, source.id),
  );
  await output.line(
    json
      ? jsonText({ taskId, thread: newThread, checkpoint: source.id, checkpoints })
      : printable(
          `Thread ${JSON.stringify(newThread)} begins at ${titleOf(source)} of thread ${JSON.stringify(from)}, with ` +
            `${counted(checkpoints, "checkpoint")}.`,
        ),
  );
}
