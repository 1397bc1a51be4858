// Prints the spans and metrics of one round of work. With --serve, works a round a second for Prometheus, until Ctrl-C.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { dashboardQueries, unknownNames } from "./dashboard.js";
import { PrintSpans } from "./print-spans.js";
import { startTelemetry } from "./telemetry.js";
import { open, work } from "./work.js";

const PORT = 9464;
const isServing = process.argv.includes("--serve");
const folder = await mkdtemp(join(tmpdir(), "waymark-observability-"));
const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stopping.abort());

const store = open(folder);
const queues = [{ manager: store.manager, prefix: "orders/", name: "shop" }];
const telemetry = startTelemetry(new PrintSpans(), queues, isServing ? PORT : undefined);
try {
  console.log("Spans, in the order in which they end:");
  await work(store, 1);
  if (isServing) {
    console.log(`\nMetrics are at http://localhost:${PORT}/metrics. Ctrl-C ends this.\n`);
    for (let round = 2; !stopping.signal.aborted; round++) {
      await pause(1000, undefined, { signal: stopping.signal }).catch(() => undefined);
      await work(store, round);
    }
  } else {
    const metrics = await telemetry.scrape();
    console.log("\nMetrics, as Prometheus reads them, without the histograms' buckets:");
    for (const line of metrics.split("\n"))
      if (/^waymark_(?!.*_bucket)/.test(line)) console.log(`  ${shortened(line)}`);
    const queries = await dashboardQueries();
    const unknown = unknownNames(queries, metrics);
    for (const name of unknown) console.error(`✗ The dashboard asks for ${name}, which is not among the metrics.`);
    if (unknown.length === 0) console.log(`\n✓ The dashboard's ${queries.length} queries ask for these metrics alone.`);
    process.exitCode = unknown.length === 0 ? 0 : 1;
  }
} finally {
  await telemetry.stop();
  await store.manager.close();
  await rm(folder, { recursive: true });
}

/** Removes the labels that name the library, and values of times, which differ in each run. */
function shortened(line: string): string {
  const plain = line.replace(/otel_scope_name="[^"]*",?|otel_scope_version="[^"]*",?/g, "").replace(/,?}/, "}");
  const [, name = "", value = ""] = /^(.*) (\S+)$/.exec(plain.replace("{}", "")) ?? [];
  return `${name} ${/_sum|_age/.test(name) ? "…" : value}`;
}
