import { describe, it } from "vitest";
import { type ConformanceHarness, registerConformance } from "waymark/conformance";
import { newSchema } from "../support/postgres.js";

const HARNESS: ConformanceHarness = {
  name: "postgres",
  module: new URL("./stores/postgres.js", import.meta.url),
  capabilities: { durable: true, multiProcess: true },
  offers: ["leases", "maintenance", "removeTasks", "replacePayload"],
  newLocation: async () => {
    const { url, schema } = await newSchema();
    return `${url} ${schema}`;
  },
};

/** The cases that kill one process after another, and those that are replayed on a store that was opened again. */
const SLOW = /killed-|survives-kill|, reopened:/;

/** The suite is in two files: all of it takes a minute. */
export function registerPostgres(part: "quick" | "slow"): void {
  const runner = {
    describe,
    it: (title: string, body: () => Promise<void>) => {
      if (SLOW.test(title) === (part === "slow")) it(title, body);
    },
  };
  registerConformance(runner, HARNESS);
}
