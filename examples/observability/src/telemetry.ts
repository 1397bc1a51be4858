// Starts OpenTelemetry, as a service does: spans are printed here, and metrics wait for Prometheus.
import { context, metrics, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { PrometheusExporter, PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, SimpleSpanProcessor, type SpanExporter } from "@opentelemetry/sdk-trace-base";
import { type Instrumentation, instrument, type Queue } from "waymark/opentelemetry";

/** @param port - The port where Prometheus finds the metrics. If `undefined`, they aren't served. */
export function startTelemetry(spans: SpanExporter, queues: readonly Queue[], port?: number) {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager());
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }));
  const exporter = new PrometheusExporter(port === undefined ? { preventServerStart: true } : { port });
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [exporter] }));
  const instrumentation: Instrumentation = instrument({ queues });
  return {
    /** Returns the metrics in the text format that Prometheus reads. */
    async scrape(): Promise<string> {
      const { resourceMetrics, errors } = await exporter.collect();
      if (errors.length > 0) throw new AggregateError(errors, "Some metrics could not be collected");
      return new PrometheusSerializer().serialize(resourceMetrics);
    },
    async stop(): Promise<void> {
      instrumentation.stop();
      await exporter.shutdown();
    },
  };
}
