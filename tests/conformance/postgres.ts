import { describe, it } from "vitest";
import { type ConformanceHarness, registerConformance } from "waymark/conformance";
import { newSchema } from "../support/postgres.js";

const HARNESS = {
  name: "postgres",
  module: new URL("./stores/postgres.js", import.meta.url),
  capabilities: { durable: true, multiProcess: true },
  offers: ["leases", "maintenance", "removeTasks", "replacePayload"],
} satisfies Partial<ConformanceHarness>;

/** The cases that kill one process after another, and those that are replayed on a store that was opened again. */
const SLOW = /killed-|survives-kill|, reopened:/;

/** The suite is in two files: all of it takes a minute. `poolerUrl`: how to reach the server, if not by its own URL. */
export function registerPostgres(part: "quick" | "slow", poolerUrl?: () => string): void {
  const runner = {
    describe,
    it: (title: string, body: () => Promise<void>) => {
      if (SLOW.test(title) === (part === "slow")) it(title, body);
    },
  };
  const newLocation = async () => {
    const { url, schema } = await newSchema();
    return `${poolerUrl?.() ?? url} ${schema}`;
  };
  registerConformance(runner, { ...HARNESS, newLocation });
}
