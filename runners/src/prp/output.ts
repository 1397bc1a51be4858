import type { Writable } from "node:stream";
import type { Logger } from "waymark";
import { type OutputSink, textSink } from "../processes/command-output.js";

/** The origin of output. */
export interface OutputSource {
  readonly taskId: string;
  readonly kind: "coder" | "gate";
  /** The gate's level. */
  readonly level?: number | undefined;
  readonly stream: "stdout" | "stderr";
}

/**
 * Receives the output of gates and coders while they run: two streams, or a function that gets whole characters.
 * Streams are only written to, never ended.
 */
export type PrpOutput =
  | { readonly stdout?: Writable | undefined; readonly stderr?: Writable | undefined }
  | ((text: string, source: OutputSource) => void);

/** @param output - Default: this process's stdout and stderr. */
export function openSink(output: PrpOutput | undefined, source: OutputSource, logger: Logger): OutputSink {
  if (typeof output !== "function") {
    const { stdout = process.stdout, stderr = process.stderr } = output ?? {};
    return streamSink(source.stream === "stdout" ? stdout : stderr, logger);
  }
  let failed = false;
  return textSink((text) => {
    if (text === "" || failed) return;
    try {
      output(text, source);
    } catch (error) {
      // A failing display must not fail the gate. The output is still kept.
      failed = true;
      logger.error({ error, ...source }, "The output function threw; the rest of this output is not passed on");
    }
  });
}

function streamSink(stream: Writable, logger: Logger): OutputSink {
  let isBroken = false;
  // Without a listener, EPIPE would end the run if the reader goes away (`… | head`).
  const onError = (error: Error): void => {
    isBroken = true;
    logger.warn({ error }, "The output can't be shown any more; it is still kept in the checkpoint");
  };
  stream.on("error", onError);
  return {
    write(chunk) {
      if (isBroken || stream.destroyed || stream.writableEnded || stream.write(chunk)) return undefined;
      return new Promise((resolve) => {
        const events = ["drain", "close", "error"];
        const wake = () => {
          for (const event of events) stream.off(event, wake);
          resolve();
        };
        for (const event of events) stream.on(event, wake);
      });
    },
    end: () => void stream.off("error", onError),
  };
}
