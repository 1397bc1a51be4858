import { existsSync } from "node:fs";
import { z } from "zod";
import { CommandError, ExitCode } from "../exit-code.js";
import { checkpointFrom, loadPackage, type Source, valueFrom } from "./source.js";

/**
 * The database of a SqliteSaver, as it is now: later writes aren't seen.
 *
 * @throws {CommandError} It isn't there, or it has no such tables.
 */
export async function sqliteSource(path: string): Promise<Source> {
  if (!existsSync(path)) throw new CommandError(ExitCode.notFound, `There is no database at ${path}.`);
  const { default: Database } = await loadPackage("better-sqlite3", () => import("better-sqlite3"));
  const database = new Database(path, { readonly: true });
  try {
    database.exec("BEGIN");
    const threads = database.prepare(
      "SELECT DISTINCT thread_id AS threadId, checkpoint_ns AS namespace FROM checkpoints",
    );
    const ids = database
      .prepare("SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?")
      .pluck();
    const checkpoint = database.prepare(
      "SELECT parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints " +
        "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
    );
    const writes = database.prepare(
      "SELECT task_id, idx, channel, type, value FROM writes " +
        "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY task_id, idx",
    );
    return {
      threads: async () => Threads.parse(threads.all()),
      ids: async ({ threadId, namespace }) => z.array(z.string()).parse(ids.all(threadId, namespace)),
      async read({ threadId, namespace }, id) {
        const row = CheckpointRow.optional().parse(checkpoint.get(threadId, namespace, id));
        if (row === undefined) return undefined;
        return checkpointFrom(row.parent_checkpoint_id, () => ({
          checkpoint: valueFrom(row.type, row.checkpoint),
          metadata: valueFrom(row.type, row.metadata),
          writes: z
            .array(WriteRow)
            .parse(writes.all(threadId, namespace, id))
            .map(({ task_id, idx, channel, type, value }) => ({
              taskId: task_id,
              index: idx,
              channel,
              value: valueFrom(type, value),
            })),
        }));
      },
      close: async () => void database.close(),
    };
  } catch (cause) {
    database.close();
    const reason = cause instanceof Error ? cause.message : String(cause);
    const what = `${path} has no threads of LangGraph's SqliteSaver: ${reason}`;
    throw new CommandError(ExitCode.notFound, `${what}. Nothing was imported.`, { cause });
  }
}

const Content = z.union([z.instanceof(Uint8Array), z.string()]).nullable();
const Threads = z.array(z.object({ threadId: z.string(), namespace: z.string() }));
const CheckpointRow = z.object({
  parent_checkpoint_id: z.string().nullable(),
  type: z.string().nullable(),
  checkpoint: Content,
  metadata: Content,
});
const WriteRow = z.object({
  task_id: z.string(),
  idx: z.number(),
  channel: z.string(),
  type: z.string().nullable(),
  value: Content,
});
