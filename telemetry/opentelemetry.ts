import type { MeterProvider, TracerProvider } from "@opentelemetry/api";
import { checkKeys, listKeys } from "../src/contract/arguments.js";
import { api } from "./api.js";
import { measure } from "./metrics.js";
import { measureQueues, type Queue } from "./queues.js";
import { traceCalls } from "./spans.js";

export type { Queue, QueueSource } from "./queues.js";

export interface InstrumentOptions {
  /** Default: the global provider, also if it is registered later. */
  readonly tracerProvider?: TracerProvider | undefined;
  /** Default: the global provider, which must be registered before. */
  readonly meterProvider?: MeterProvider | undefined;
  /** The queues whose length and age are measured at each export of metrics. Default: none. */
  readonly queues?: readonly Queue[] | undefined;
}

/** The result of {@link instrument}. */
export interface Instrumentation extends Disposable {
  /** Ends the instrumentation. The spans of calls under way are never ended, so they aren't exported. Idempotent. */
  stop(): void;
}

const NAME = "waymark";

/**
 * Makes spans and metrics of the work of all managers in this process. Call this once, after OpenTelemetry's SDK has
 * started. Nothing of a state, metadata, a label, a result or an error's message goes into a span or a metric.
 *
 * @example
 * ```ts
 * import { instrument } from "waymark/opentelemetry";
 *
 * const instrumentation = instrument();
 * // … the program's work …
 * instrumentation.stop();
 * ```
 *
 * @throws {TypeError} An option is misspelled, or two queues have the same prefix and name.
 */
export function instrument(options: InstrumentOptions = {}): Instrumentation {
  const keys = listKeys<InstrumentOptions>({ tracerProvider: true, meterProvider: true, queues: true });
  checkKeys("InstrumentOptions", options, keys);
  const { tracerProvider = api.trace, meterProvider = api.metrics, queues = [] } = options;
  const meter = meterProvider.getMeter(NAME);
  // The queues come first, because they may be refused, and then nothing is subscribed.
  const stops = [measureQueues(meter, queues), traceCalls(tracerProvider.getTracer(NAME)), measure(meter)];
  const stop = (): void => {
    for (const end of stops.splice(0)) end();
  };
  return { stop, [Symbol.dispose]: stop };
}
