// An agent that writes a report in three steps. Each step streams its tokens while it runs.
import { setTimeout as pause } from "node:timers/promises";
import type { Run } from "waymark";

export const PARTS = ["outline", "draft", "summary"] as const;

/** The run's function. Its input has the report's subject; its result is the whole report. */
export async function report(run: Run<unknown, unknown, { readonly subject: string }>): Promise<string> {
  const parts: string[] = [];
  for (const part of PARTS) {
    const text = await run.step(part, async ({ write, signal }) => {
      const tokens: string[] = [];
      for await (const token of model(part, run.input.subject, signal)) {
        await write(token);
        tokens.push(token);
      }
      return tokens.join("");
    });
    parts.push(text);
  }
  return parts.join("\n");
}

/** Stands in for a language model, so that the example needs no API key. */
async function* model(part: string, subject: string, signal: AbortSignal): AsyncGenerator<string, void> {
  const msPerToken = Number(process.env["MS_PER_TOKEN"] ?? 80);
  const words =
    `The ${part} about ${subject}: it says what there is to say, word by word, and it takes its time.`.split(" ");
  for (const word of words) {
    await pause(msPerToken, undefined, { signal });
    yield `${word} `;
  }
}
