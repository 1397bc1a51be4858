// Reports over HTTP: `POST /reports/:id` begins one, `GET /reports/:id/events` streams it as server-sent events, and
// `GET /reports/:id/result` waits for it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { CheckpointError, CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { report } from "./agent.js";

const PREFIX = "reports/";
const page = readFileSync(join(import.meta.dirname, "..", "page.html"), "utf8");
const path = process.env["WAYMARK_DATABASE"] ?? ".waymark/live.db";
const manager = new CheckpointManager({ storage: new SqliteAdapter({ path }) });

const app = new Hono();
app.get("/", (context) => context.html(page));

// The id is the idempotency key: two clicks start one report.
app.post("/reports/:id", async (context) => {
  const { subject } = await context.req.json<{ readonly subject: string }>();
  const isNew = await manager.enqueue(`${PREFIX}${context.req.param("id")}`, { subject });
  return context.json({ isNew }, 202);
});

app.get("/reports/:id/events", (context) => {
  const taskId = `${PREFIX}${context.req.param("id")}`;
  const lastSeen = context.req.header("last-event-id");
  const left = new AbortController();
  return streamSSE(context, async (stream) => {
    stream.onAbort(() => left.abort());
    const options = { kinds: ["step", "chunk"], signal: left.signal } as const;
    const after = lastSeen === undefined ? {} : { afterSequence: Number(lastSeen) };
    try {
      for await (const record of manager.follow(taskId, { ...options, ...after })) {
        // `writeSSE` resolves once the browser has room for more.
        await stream.writeSSE({
          id: String(record.sequence),
          event: record.kind,
          data: JSON.stringify(record),
          retry: 250,
        });
      }
      // The records also end if the run failed or was cancelled. In that case, `result` throws.
      await manager.result(taskId, { signal: left.signal });
      await stream.writeSSE({ event: "end", data: "" });
    } catch (error) {
      if (left.signal.aborted) return;
      await stream.writeSSE({ event: "failed", data: error instanceof CheckpointError ? error.code : String(error) });
    }
  });
});

app.get("/reports/:id/result", async (context) => {
  const signal = AbortSignal.any([context.req.raw.signal, AbortSignal.timeout(60_000)]);
  const result = await manager.result(`${PREFIX}${context.req.param("id")}`, { signal });
  return context.json({ result });
});

const server = serve({ fetch: app.fetch, port: Number(process.env["PORT"] ?? 3000) }, ({ port }) => {
  console.log(`http://localhost:${port}`);
});
// The worker also continues runs of a killed server. Ctrl-C pauses the runs and ends the process.
await manager.work({ prefix: PREFIX, concurrency: 8, pauseOnSignal: true }, report);
server.close();
