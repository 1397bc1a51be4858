import type { TracingChannel } from "node:diagnostics_channel";
import type { Attributes, Context, Link, Span, SpanContext, Tracer } from "@opentelemetry/api";
import { type DiagnosticsMessages, type TracedCall, tracing } from "../src/manager/tracing.js";
import { api } from "./api.js";
import { onCalls } from "./subscribe.js";

/** Codes of errors that are an answer rather than a failure. Their spans have `error.type`, but not the status ERROR. */
const ANSWERS: readonly (string | undefined)[] = ["RUN_PAUSED", "LEASE_HELD"];

/** Makes a span of each traced call. Returns a function that ends this. */
export function traceCalls(tracer: Tracer): () => void {
  const stops = [
    findSpan(tracer, tracing.save, "waymark.save", ofCheckpoint),
    findSpan(tracer, tracing.latest, "waymark.latest", ofCheckpoint),
    findSpan(tracer, tracing.run, "waymark.run", ofRun, runSpan),
    findSpan(tracer, tracing.step, "waymark.step", ofStep),
    claimSpans(tracer),
    findSpan(tracer, tracing.prune, "waymark.prune", ofPrune),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

type Start<Call> = (call: Call, startSpan: (links: Link[]) => Span) => Span;

function findSpan<Call extends TracedCall>(
  tracer: Tracer,
  channel: TracingChannel<unknown, Call>,
  name: string,
  attributesOf: (call: Call) => Attributes,
  start: Start<Call> = (_call, startSpan) => startSpan([]),
): () => void {
  const spans = new WeakMap<Call, Span>();
  return onCalls(channel, {
    start(call) {
      const parent = api.context.active();
      const span = start(call, (links) => tracer.startSpan(name, { attributes: attributesOf(call), links }, parent));
      spans.set(call, span);
      runWithin(call, api.trace.setSpan(parent, span));
    },
    ended(call) {
      const span = spans.get(call);
      if (span !== undefined) end(span, call, attributesOf(call));
    },
  });
}

/**
 * Makes the span of a claim once it has ended, because a worker asks several times a second, and most answers are that
 * no task is due. Those get no span.
 */
function claimSpans(tracer: Tracer): () => void {
  const startedMs = new WeakMap<object, number>();
  return onCalls(tracing.claim, {
    start(call) {
      startedMs.set(call, performance.now());
    },
    ended(call) {
      const startTime = startedMs.get(call);
      if (startTime === undefined || (call.taskIds?.length === 0 && call.error === undefined)) return;
      end(tracer.startSpan("waymark.claim", { startTime }), call, ofClaim(call), performance.now());
    },
  });
}

function end(span: Span, { error }: TracedCall, attributes: Attributes, endMs?: number): void {
  span.setAttributes(attributes);
  if (error !== undefined) {
    span.setAttribute("error.type", errorType(error));
    if (!ANSWERS.includes(error.code)) span.setStatus({ code: api.SpanStatusCode.ERROR });
  }
  span.end(endMs);
}

/** Runs the call within the context, inside the contexts of other subscribers. */
function runWithin(call: TracedCall, context: Context): void {
  const { around } = call;
  call.around = (work) => {
    const inContext = () => api.context.with(context, work);
    return around === undefined ? inContext() : around(inContext);
  };
}

/** Links a resumed run to the attempt before it, and gives the run's record the span's own context. */
function runSpan(run: DiagnosticsMessages["waymark:run"], startSpan: (links: Link[]) => Span): Span {
  const previous = parseTraceparent(run.previousTraceparent);
  const span = startSpan(previous === undefined ? [] : [{ context: previous }]);
  const context = span.spanContext();
  if (api.isSpanContextValid(context)) run.traceparent = formatTraceparent(context);
  return span;
}

export function errorType({ name, code }: NonNullable<TracedCall["error"]>): string {
  return code ?? name;
}

function ofCheckpoint(call: DiagnosticsMessages["waymark:latest"]): Attributes {
  return {
    "waymark.task_id": call.taskId,
    "waymark.checkpoint_id": call.id,
    "waymark.stage": call.stage,
    "waymark.status": call.status,
    "waymark.size_bytes": call.sizeBytes,
    "waymark.sequence": call.sequence,
  };
}

function ofRun(call: DiagnosticsMessages["waymark:run"]): Attributes {
  return {
    "waymark.task_id": call.taskId,
    "waymark.attempt": call.attempt,
    "waymark.turn": call.turn,
    "waymark.status": call.status,
  };
}

function ofStep(call: DiagnosticsMessages["waymark:step"]): Attributes {
  return {
    "waymark.task_id": call.taskId,
    "waymark.attempt": call.attempt,
    "waymark.turn": call.turn,
    "waymark.step": call.step,
  };
}

function ofClaim(call: DiagnosticsMessages["waymark:claim"]): Attributes {
  return {
    "waymark.task_id": call.taskId,
    "waymark.queue.prefix": call.prefix,
    "waymark.queue.claimed": call.taskIds?.length,
    "waymark.lease.holder": call.holder,
    "waymark.lease.token": call.token,
  };
}

function ofPrune(call: DiagnosticsMessages["waymark:prune"]): Attributes {
  return { "waymark.task_id": call.taskId, "waymark.prune.by": call.by, "waymark.prune.removed": call.removed };
}

/** A W3C trace context: version 00, the ids of trace and span, and the flags. */
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

function formatTraceparent({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
}

function parseTraceparent(traceparent: string | undefined): SpanContext | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? "") ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
}
