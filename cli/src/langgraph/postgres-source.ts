import type { ServerLocation } from "waymark/adapters";
import { z } from "zod";
import { CommandError, ExitCode } from "../exit-code.js";
import { checkpointFrom, loadPackage, type Source, valueFrom } from "./source.js";

/**
 * The tables of a PostgresSaver, as they are now: later writes aren't seen.
 *
 * @throws {CommandError} The server can't be reached, or the schema has no such tables.
 */
export async function postgresSource({ url, schema = "public", name }: ServerLocation): Promise<Source> {
  const { default: pg } = await loadPackage("pg", () => import("pg"));
  const client = new pg.Client(url);
  const table = (its: string) => `${pg.escapeIdentifier(schema)}.${its}`;
  const rows = async <Row>(shape: z.ZodType<Row>, sql: string, ...values: unknown[]) =>
    z.array(shape).parse((await client.query(sql, values)).rows);
  const threads = () =>
    rows(ThreadRow, `SELECT DISTINCT thread_id AS "threadId", checkpoint_ns AS namespace FROM ${table("checkpoints")}`);
  const ofCheckpoint = "thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3";
  try {
    await client.connect();
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    await threads();
  } catch (cause) {
    await client.end().catch(() => undefined);
    const reason = cause instanceof Error ? cause.message : String(cause);
    const what = `${name}, schema ${JSON.stringify(schema)}, gives no threads of LangGraph's PostgresSaver: ${reason}`;
    throw new CommandError(ExitCode.notFound, `${what}. Another schema is ?schema=NAME. Nothing was imported.`, {
      cause,
    });
  }
  return {
    threads,
    ids: async ({ threadId, namespace }) => {
      const sql = `SELECT checkpoint_id FROM ${table("checkpoints")} WHERE thread_id = $1 AND checkpoint_ns = $2`;
      return (await rows(z.object({ checkpoint_id: z.string() }), sql, threadId, namespace)).map(
        (row) => row.checkpoint_id,
      );
    },
    async read({ threadId, namespace }, id) {
      const key = [threadId, namespace, id];
      const [row] = await rows(
        CheckpointRow,
        `SELECT parent_checkpoint_id, checkpoint, metadata FROM ${table("checkpoints")} WHERE ${ofCheckpoint}`,
        ...key,
      );
      if (row === undefined) return undefined;
      const values = await rows(
        ValueRow,
        `SELECT blobs.channel, blobs.type, blobs.blob FROM ${table("checkpoints")},
          jsonb_each_text(checkpoint -> 'channel_versions') AS versions (channel, version)
          JOIN ${table("checkpoint_blobs")} AS blobs USING (channel, version)
          WHERE blobs.thread_id = $1 AND blobs.checkpoint_ns = $2
          AND checkpoints.thread_id = $1 AND checkpoints.checkpoint_ns = $2 AND checkpoint_id = $3`,
        ...key,
      );
      const writes = await rows(
        WriteRow,
        `SELECT task_id, idx, channel, type, blob FROM ${table("checkpoint_writes")}
          WHERE ${ofCheckpoint} ORDER BY task_id, idx`,
        ...key,
      );
      return checkpointFrom(row.parent_checkpoint_id, () => ({
        checkpoint: {
          ...row.checkpoint,
          channel_values: Object.fromEntries(
            values
              .filter(({ type }) => type !== "empty")
              .map(({ channel, type, blob }) => [channel, valueFrom(type, blob)]),
          ),
        },
        metadata: row.metadata,
        writes: writes.map(({ task_id, idx, channel, type, blob }) => ({
          taskId: task_id,
          index: idx,
          channel,
          value: valueFrom(type, blob),
        })),
      }));
    },
    close: () => client.end(),
  };
}

const ThreadRow = z.object({ threadId: z.string(), namespace: z.string() });
const CheckpointRow = z.object({
  parent_checkpoint_id: z.string().nullable(),
  checkpoint: z.record(z.string(), z.unknown()),
  metadata: z.unknown(),
});
const ValueRow = z.object({ channel: z.string(), type: z.string(), blob: z.instanceof(Uint8Array).nullable() });
const WriteRow = z.object({
  task_id: z.string(),
  idx: z.number(),
  channel: z.string(),
  type: z.string().nullable(),
  blob: z.instanceof(Uint8Array),
});
