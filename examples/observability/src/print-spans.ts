import { SpanStatusCode } from "@opentelemetry/api";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace-base";

/** Prints each span of a run and of its steps on one line. */
export class PrintSpans implements SpanExporter {
  /** The attempts, by the ids of their spans. */
  readonly #attempts = new Map<string, string>();

  export(spans: readonly ReadableSpan[], done: Parameters<SpanExporter["export"]>[1]): void {
    for (const span of spans) this.#print(span);
    done({ code: 0 });
  }

  async shutdown(): Promise<void> {}

  #print(span: ReadableSpan): void {
    const { name, attributes, status, links } = span;
    const task = String(attributes["waymark.task_id"]);
    const error = status.code === SpanStatusCode.ERROR ? `  ✗ ${String(attributes["error.type"])}` : "";
    if (name === "waymark.step") console.log(`    step ${String(attributes["waymark.step"])}${error}`);
    if (name !== "waymark.run") return;
    const attempt = `attempt ${String(attributes["waymark.attempt"])}`;
    this.#attempts.set(span.spanContext().spanId, attempt);
    const before = links.map(({ context }) => `, linked to the span of ${this.#attempts.get(context.spanId)}`);
    console.log(`  run ${task}, ${attempt}: ${String(attributes["waymark.status"])}${before.join("")}${error}`);
  }
}
