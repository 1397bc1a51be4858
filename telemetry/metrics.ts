import type { Meter } from "@opentelemetry/api";
import { tracing } from "../src/manager/tracing.js";
import { errorType } from "./spans.js";
import { onCalls, onMessages } from "./subscribe.js";

/** From a save in memory to one that waits for a lock or a far server, in seconds. */
const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const BYTES = [256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864];

/** Records metrics of saves, runs, leases and damage. No metric has a task's id. Returns a function that ends this. */
export function measure(meter: Meter): () => void {
  const saves = meter.createCounter("waymark.saves", { unit: "{checkpoint}", description: "Checkpoints saved" });
  const size = meter.createHistogram("waymark.save.size", {
    unit: "By",
    description: "Sizes of saved checkpoints",
    advice: { explicitBucketBoundaries: BYTES },
  });
  const duration = meter.createHistogram("waymark.save.duration", {
    unit: "s",
    description: "Times that the storage took for a save, failed ones included",
    advice: { explicitBucketBoundaries: SECONDS },
  });
  const conflicts = meter.createCounter("waymark.conflicts", {
    unit: "{conflict}",
    description: "Saves that were refused because another writer had changed the task",
  });
  const runs = meter.createCounter("waymark.runs", { unit: "{run}", description: "Attempts of runs that have ended" });
  const lost = meter.createCounter("waymark.leases_lost", {
    unit: "{lease}",
    description: "Leases that ended without a release",
  });
  const damaged = meter.createCounter("waymark.damaged_records", {
    unit: "{record}",
    description: "Records that couldn't be read, each time that a call met one",
  });

  const startedMs = new WeakMap<object, number>();
  const stops = [
    onCalls(tracing.save, {
      start(save) {
        startedMs.set(save, performance.now());
      },
      ended(save) {
        const { status, sizeBytes, error } = save;
        const failed = error === undefined ? {} : { "error.type": errorType(error) };
        const started = startedMs.get(save);
        if (started !== undefined) duration.record((performance.now() - started) / 1000, failed);
        if (error === undefined) {
          saves.add(1, { "waymark.status": status });
          size.record(sizeBytes);
        } else if (error.code === "CHECKPOINT_CONFLICT") conflicts.add(1);
      },
    }),
    onCalls(tracing.run, { ended: ({ status }) => runs.add(1, { "waymark.status": status }) }),
    onMessages("waymark:lease-lost", () => lost.add(1)),
    onMessages("waymark:damaged", () => damaged.add(1)),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}
