import { channel } from "node:diagnostics_channel";
import { readdir, truncate } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { context, diag, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  type DataPoint,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { execa } from "execa";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { CheckpointManager } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MemoryAdapter } from "waymark/adapters/memory";
import { type InstrumentOptions, instrument } from "waymark/opentelemetry";
import { tempFolder } from "../../support/temp-folder.js";

const KILLED = fileURLToPath(new URL("../../fixtures/traced-until-killed.mjs", import.meta.url));
const SECRET = "sesame";

beforeAll(() => void context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()));
afterAll(() => context.disable());

function once(manager: CheckpointManager, event: "runPaused"): Promise<void> {
  return new Promise((resolve) => {
    const unsubscribe = manager.on(event, () => {
      unsubscribe();
      resolve();
    });
  });
}

/** Instruments with the real SDK. Its exporters keep everything in memory. */
function instrumented(options: InstrumentOptions = {}) {
  const spans = new InMemorySpanExporter();
  const metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  const reader = new PeriodicExportingMetricReader({ exporter: metrics, exportIntervalMillis: 2 ** 30 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const instrumentation = instrument({ tracerProvider, meterProvider, ...options });
  onTestFinished(async () => {
    instrumentation.stop();
    await meterProvider.shutdown();
  });
  const collected = async () => {
    metrics.reset();
    await reader.forceFlush();
    return metrics.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
  };
  return {
    instrumentation,
    collected,
    spans: (name?: string) => spans.getFinishedSpans().filter((span) => name === undefined || span.name === name),
    /** Returns the values of a metric, each with its attributes. */
    values: async (name: string): Promise<readonly Pick<DataPoint<unknown>, "attributes" | "value">[]> =>
      (await collected()).find(({ descriptor }) => descriptor.name === name)?.dataPoints ?? [],
  };
}

function inMemory() {
  return new CheckpointManager({ storage: new MemoryAdapter() });
}

it("makes a span of a run, of its claim, and of each step within it, with the step's code inside", async () => {
  const { spans } = instrumented();
  const inside = await inMemory().run("t", (run) =>
    run.step("model", () => trace.getActiveSpan()?.spanContext().spanId),
  );
  const [run] = spans("waymark.run");
  const [step] = spans("waymark.step");
  expect(run?.attributes).toEqual({
    "waymark.task_id": "t",
    "waymark.attempt": 1,
    "waymark.turn": 1,
    "waymark.status": "completed",
  });
  expect(step?.attributes).toMatchObject({ "waymark.task_id": "t", "waymark.step": "model" });
  expect(step?.parentSpanContext?.spanId).toBe(run?.spanContext().spanId);
  expect(inside).toBe(step?.spanContext().spanId);
  const parents = spans("waymark.save").map((save) => save.parentSpanContext?.spanId);
  const runId = run?.spanContext().spanId;
  expect(parents).toEqual([runId, runId]);
  expect(spans("waymark.claim")[0]?.attributes).toMatchObject({ "waymark.task_id": "t", "waymark.lease.token": 1 });
});

it("begins the span of a call within the program's own span", async () => {
  const { spans } = instrumented();
  const own = new BasicTracerProvider().getTracer("the program").startSpan("request");
  const manager = inMemory();
  await context.with(trace.setSpan(context.active(), own), async () => {
    await manager.save("t", 1);
    await manager.latest("t");
  });
  const parents = spans().map((span) => [span.name, span.parentSpanContext?.spanId]);
  expect(parents).toEqual(["waymark.save", "waymark.latest"].map((name) => [name, own.spanContext().spanId]));
});

it("links the span of a resumed run to that of the process that was killed", async () => {
  const path = await tempFolder();
  const killed = await execa(process.execPath, [KILLED, path], { reject: false });
  expect(killed.signal).toBe("SIGKILL");
  const { traceId, spanId } = JSON.parse(killed.stdout) as { traceId: string; spanId: string };

  const { spans } = instrumented();
  await new CheckpointManager({ storage: new JsonFileAdapter({ path }) }).run("t", async (run) => {
    await run.step("first", () => 1);
    await run.step("second", () => 2);
  });
  const [run] = spans("waymark.run");
  expect(run?.links.map((link) => link.context)).toEqual([{ traceId, spanId, traceFlags: 1, isRemote: true }]);
  expect(run?.attributes["waymark.attempt"]).toBe(2);
  expect(spans("waymark.step").map((step) => step.attributes["waymark.step"])).toEqual(["second"]);
});

it("links each attempt to the previous one, and the first to none", async () => {
  const { spans } = instrumented();
  const storage = new MemoryAdapter();
  const attempt = () =>
    new CheckpointManager({ storage, ownsStorage: false }).run("t", () => Promise.reject(new Error("again")));
  for (let n = 1; n <= 3; n++) await expect(attempt()).rejects.toThrow();
  const runs = spans("waymark.run");
  expect(runs.map(({ links }) => links.map((link) => link.context.spanId))).toEqual([
    [],
    [runs[0]?.spanContext().spanId],
    [runs[1]?.spanContext().spanId],
  ]);
});

it("shows a failed step and its run as errors of their type", async () => {
  const { spans, values } = instrumented();
  const failed = inMemory().run("t", (run) => run.step("read", () => Promise.reject(new RangeError(SECRET))));
  await expect(failed).rejects.toThrow();
  for (const name of ["waymark.step", "waymark.run"]) {
    const [span] = spans(name);
    expect(span?.status).toEqual({ code: SpanStatusCode.ERROR });
    expect(span?.attributes["error.type"]).toBe("RangeError");
  }
  expect(await values("waymark.runs")).toMatchObject([{ attributes: { "waymark.status": "failed" }, value: 1 }]);
});

it("shows a paused run and a task that is held as answers, not as errors", async () => {
  const { spans } = instrumented();
  const manager = inMemory();
  const pausing = new AbortController();
  await expect(manager.run("t", () => pausing.abort(), { signal: pausing.signal })).rejects.toThrow();
  await manager.lease("held");
  await expect(manager.lease("held")).rejects.toThrow();
  expect(spans("waymark.run")[0]?.attributes).toMatchObject({ "waymark.status": "paused", "error.type": "RUN_PAUSED" });
  expect(spans("waymark.claim").at(-1)?.attributes["error.type"]).toBe("LEASE_HELD");
  for (const span of spans()) expect(span.status.code).toBe(SpanStatusCode.UNSET);
});

it("counts saves by status, with their bytes and times", async () => {
  const { values } = instrumented();
  const manager = inMemory();
  const { sizeBytes } = await manager.save("t", "some state");
  await manager.save("t", "some state", { status: "completed" });
  expect(await values("waymark.saves")).toMatchObject([
    { attributes: { "waymark.status": "running" }, value: 1 },
    { attributes: { "waymark.status": "completed" }, value: 1 },
  ]);
  expect(await values("waymark.save.size")).toMatchObject([{ value: { count: 2, sum: 2 * sizeBytes } }]);
  expect(await values("waymark.save.duration")).toMatchObject([{ attributes: {}, value: { count: 2 } }]);
});

it("counts a conflict, and its time under the error's type", async () => {
  const { spans, values } = instrumented();
  const manager = inMemory();
  await manager.save("t", 1);
  await expect(manager.save("t", 2, { expectedSequence: 0 })).rejects.toThrow();
  expect(await values("waymark.conflicts")).toMatchObject([{ value: 1 }]);
  expect(await values("waymark.saves")).toMatchObject([{ value: 1 }]);
  expect(await values("waymark.save.duration")).toMatchObject([
    { attributes: {}, value: { count: 1 } },
    { attributes: { "error.type": "CHECKPOINT_CONFLICT" }, value: { count: 1 } },
  ]);
  expect(spans("waymark.save").at(-1)?.status.code).toBe(SpanStatusCode.ERROR);
});

it("counts a lost lease once, and its run as stopped", async () => {
  const { values } = instrumented();
  const storage = new MemoryAdapter();
  const run = new CheckpointManager({ storage }).run("t", async ({ step }) => {
    await storage.leases.claim("t", "somebody else", 30_000, { force: true });
    await step("refused", () => 1);
  });
  await expect(run).rejects.toThrow();
  expect(await values("waymark.leases_lost")).toMatchObject([{ value: 1 }]);
  expect(await values("waymark.runs")).toMatchObject([{ attributes: { "waymark.status": "stopped" }, value: 1 }]);
});

it("counts a damaged record", async () => {
  const { values } = instrumented();
  const path = await tempFolder();
  const manager = new CheckpointManager({ storage: new JsonFileAdapter({ path }) });
  await manager.save("t", 1);
  const { id } = await manager.save("t", 2);
  const newest = (await readdir(join(path, "t"))).find((name) => name.endsWith(`${id}.json`));
  await truncate(join(path, "t", newest ?? ""), 300);
  await manager.latest("t");
  expect(await values("waymark.damaged_records")).toMatchObject([{ value: 1 }]);
});

it("makes a span of a worker's claim, and none if no task was due", async () => {
  const { spans } = instrumented();
  const manager = inMemory();
  await manager.enqueue("mail/42");
  const draining = new AbortController();
  const attempts: number[] = [];
  await manager.work({ prefix: "mail/", concurrency: 2, signal: draining.signal }, ({ attempt }) => {
    attempts.push(attempt);
    draining.abort();
  });
  expect(attempts).toEqual([1]);
  expect(spans("waymark.claim").map(({ attributes }) => attributes)).toEqual([
    { "waymark.queue.prefix": "mail/", "waymark.queue.claimed": 1, "waymark.lease.holder": expect.any(String) },
  ]);
});

it("shows a run that lets go of its worker as paused", async () => {
  const { spans } = instrumented();
  const manager = inMemory();
  await manager.enqueue("mail/42");
  const draining = new AbortController();
  const paused = once(manager, "runPaused").then(() => draining.abort());
  await manager.work({ prefix: "mail/", signal: draining.signal }, (run) => run.waitFor("approve"));
  await paused;
  expect(spans("waymark.run")[0]?.attributes).toMatchObject({ "waymark.status": "paused", "error.type": "RUN_PAUSED" });
});

it("makes a span of a prune, with the number that it removed", async () => {
  const { spans } = instrumented();
  const manager = new CheckpointManager({ storage: new MemoryAdapter(), retention: { keepLast: 1 } });
  await manager.save("t", 1);
  await manager.save("t", 2);
  expect(spans("waymark.prune").map(({ attributes }) => attributes)).toEqual([
    { "waymark.task_id": "t", "waymark.prune.by": "retention", "waymark.prune.removed": 1 },
  ]);
});

it("measures the length and the age of the queues that it is given, and only these", async () => {
  const clock = () => Date.parse("2026-11-26T10:00:00.000Z");
  const manager = new CheckpointManager({ storage: new MemoryAdapter(), clock });
  vi.useFakeTimers({ toFake: ["Date"], now: clock() + 30_000 });
  onTestFinished(() => void vi.useRealTimers());
  for (const taskId of ["mail/1", "mail/2", "other/1"]) await manager.enqueue(taskId);
  const { values } = instrumented({ queues: ["mail/", "idle/"].map((prefix) => ({ manager, prefix })) });
  const [mail, idle] = ["mail/", "idle/"].map((prefix) => ({ "waymark.queue.prefix": prefix }));
  const measured = async (name: string) => new Map((await values(name)).map((each) => [each.attributes, each.value]));
  expect(await measured("waymark.queue.length")).toEqual(
    new Map([
      [mail, 2],
      [idle, 0],
    ]),
  );
  expect(await measured("waymark.queue.age")).toEqual(
    new Map([
      [mail, 30],
      [idle, 0],
    ]),
  );
});

it("tells queues of one prefix in several storages apart by their names", async () => {
  const shards = [inMemory(), inMemory()];
  await shards[0]?.enqueue("mail/1");
  for (const taskId of ["mail/2", "mail/3"]) await shards[1]?.enqueue(taskId);
  const { values } = instrumented({
    queues: shards.map((manager, n) => ({ manager, prefix: "mail/", name: `shard-${n}` })),
  });
  expect(await values("waymark.queue.length")).toMatchObject([
    { attributes: { "waymark.queue.prefix": "mail/", "waymark.queue.name": "shard-0" }, value: 1 },
    { attributes: { "waymark.queue.prefix": "mail/", "waymark.queue.name": "shard-1" }, value: 2 },
  ]);
});

it("refuses two queues of one prefix and name, and then subscribes to nothing", () => {
  const [manager, other] = [inMemory(), inMemory()];
  const twice = [
    { manager, prefix: "mail/" },
    { manager: other, prefix: "mail/" },
  ];
  expect(() => instrument({ queues: twice })).toThrow('Two queues have the prefix "mail/" and no name.');
  const named = twice.map((queue) => ({ ...queue, name: "a" }));
  expect(() => instrument({ queues: named })).toThrow('Two queues have the prefix "mail/" and the name "a".');
  expect(channel("tracing:waymark:save:start").hasSubscribers).toBe(false);
});

it("measures the other queues if one storage fails, and the SDK reports the error", async () => {
  const [intact, broken] = [inMemory(), inMemory()];
  await intact.enqueue("mail/1");
  const reported: unknown[] = [];
  const error = (...args: unknown[]) => void reported.push(...args);
  const others = { warn: error, info: error, debug: () => undefined, verbose: () => undefined };
  diag.setLogger({ error, ...others }, { suppressOverrideMessage: true });
  onTestFinished(() => diag.disable());
  const { values } = instrumented({
    queues: [
      { manager: broken, prefix: "mail/", name: "broken" },
      { manager: intact, prefix: "mail/", name: "intact" },
    ],
  });
  await broken.close();
  expect(await values("waymark.queue.length")).toMatchObject([
    { attributes: { "waymark.queue.name": "intact" }, value: 1 },
  ]);
  expect(reported).toContainEqual(expect.objectContaining({ code: "CLOSED" }));
});

it("puts nothing of a state, metadata, label, result or message into a span or a metric", async () => {
  const { spans, collected } = instrumented();
  const manager = new CheckpointManager({ storage: new MemoryAdapter(), retention: { keepLast: 2 } });
  for (let n = 1; n <= 3; n++) {
    await manager.save("t", { SECRET }, { label: SECRET, metadata: { SECRET }, error: new Error(SECRET) });
  }
  await expect(manager.save("t", SECRET, { expectedSequence: 1 })).rejects.toThrow();
  await manager.latest("t");
  await manager.run("done", (run) => run.step("a", () => SECRET), { input: SECRET, initialState: SECRET });
  const failed = manager.run("failed", (run) => run.step("a", () => Promise.reject(new Error(SECRET))));
  await expect(failed).rejects.toThrow(SECRET);

  const names = spans().map(({ name }) => name);
  expect([...new Set(names)].sort()).toEqual(
    ["claim", "latest", "prune", "run", "save", "step"].map((name) => `waymark.${name}`),
  );
  const told = spans().map(({ name, attributes, events, links, status }) => [name, attributes, events, links, status]);
  expect(JSON.stringify(told)).not.toContain(SECRET);
  const counted = await collected();
  expect(counted.length).toBeGreaterThan(4);
  expect(JSON.stringify(counted)).not.toContain(SECRET);
});

it("makes nothing of a call after its stop", async () => {
  const { instrumentation, spans, values } = instrumented();
  const manager = inMemory();
  await manager.save("t", 1);
  instrumentation.stop();
  instrumentation.stop();
  await manager.save("t", 2);
  expect(spans()).toHaveLength(1);
  expect(await values("waymark.saves")).toMatchObject([{ value: 1 }]);
});

it("refuses an option that is misspelled", () => {
  expect(() => instrument({ meterprovider: undefined } as object)).toThrow(/meterprovider/);
});
