import { registerConformance } from "waymark/conformance";
import { newSchema } from "../support/postgres.js";
import { type Part, runnerOf } from "./parts.js";

/** @param poolerUrl - A pooler's URL that reaches the server. Default: the server's own URL. */
export function registerPostgres(part: Part, poolerUrl?: () => string): void {
  registerConformance(runnerOf(part), {
    name: "postgres",
    module: new URL("./stores/postgres.js", import.meta.url),
    capabilities: { durable: true, multiProcess: true },
    offers: ["leases", "log", "maintenance", "queue", "removePrefix", "replacePayload"],
    newLocation: async () => {
      const { url, schema } = await newSchema();
      return `${poolerUrl?.() ?? url} ${schema}`;
    },
  });
}
