import type * as OpenTelemetry from "@opentelemetry/api";
import { isError } from "../src/contract/errors.js";
import { loadPackage } from "../src/contract/load-package.js";

/**
 * OpenTelemetry's API. It is loaded with `require`, because it is an optional peer and Node's error for a missing import
 * doesn't say what to do.
 */
export const api = loadApi();

function loadApi(): typeof OpenTelemetry {
  try {
    // Only the package's own declarations could prove what it exports.
    return loadPackage("@opentelemetry/api") as typeof OpenTelemetry;
  } catch (cause) {
    if (!(isError(cause) && "code" in cause && cause.code === "MODULE_NOT_FOUND")) throw cause;
    throw new Error(
      "waymark/opentelemetry needs @opentelemetry/api, which isn't installed. Run: npm install @opentelemetry/api",
      { cause },
    );
  }
}
