import { AssertionError } from "node:assert";
import type { AdapterCapabilities } from "../src/contract/adapter.js";
import { checkKeys, listKeys } from "../src/contract/arguments.js";
import { isError } from "../src/contract/errors.js";
import { CaseStore } from "./case-store.js";
import { conformanceCases } from "./cases/index.js";
import type { ConformanceCase, LifecycleState } from "./conformance-case.js";
import { type ConformanceHarness, type ConformanceRunner, OPTIONAL_METHODS } from "./harness.js";

/**
 * Registers the cases for the adapter's declared capabilities with a test runner. Cases that start and kill processes
 * take a few seconds each, so set the runner's time limit to a minute.
 *
 * @example
 * ```ts
 * import { mkdtempSync } from "node:fs";
 * import { tmpdir } from "node:os";
 * import { join } from "node:path";
 * import { describe, it } from "node:test";
 * import { registerConformance } from "waymark/conformance";
 *
 * registerConformance({ describe, it }, {
 *   name: "my-adapter",
 *   module: new URL("./my-store.js", import.meta.url), // exports open(location) and damage(location, taskId, id, part)
 *   capabilities: { durable: true, multiProcess: false },
 *   newLocation: () => mkdtempSync(join(tmpdir(), "my-adapter-")),
 * });
 * ```
 */
export function registerConformance(runner: ConformanceRunner, harness: ConformanceHarness): void {
  checkHarness(harness);
  runner.describe(`${harness.name} keeps the storage contract`, () => {
    for (const conformanceCase of conformanceCases) {
      for (const state of listStates(conformanceCase, harness)) {
        const title = `${conformanceCase.name}${state === "fresh" ? "" : `, ${state}`}: ${conformanceCase.promise}`;
        runner.it(title, () => runConformanceCase(conformanceCase, harness, state));
      }
    }
  });
}

/**
 * Runs one case in a new location, regardless of the adapter's declarations.
 *
 * @throws {Error} The adapter doesn't meet its obligation: usually an `AssertionError` that cites the contract.
 */
export async function runConformanceCase(
  conformanceCase: ConformanceCase,
  harness: ConformanceHarness,
  state: LifecycleState = "fresh",
): Promise<void> {
  const store = await CaseStore.make(harness, state);
  try {
    await conformanceCase.run(store);
  } catch (error) {
    // A failure of the cleanup is dropped, because the case's own failure is more useful.
    await store.release().catch(() => undefined);
    throw explained(error, conformanceCase);
  }
  await store.release();
}

/** Adds the case's obligation to an error that the adapter threw. */
function explained(error: unknown, { name, promise }: ConformanceCase): unknown {
  if (error instanceof AssertionError) return error;
  const message = isError(error) ? error.message : String(error);
  return new Error(`${name}: an adapter ${promise}; here a call failed: ${message}`, { cause: error });
}

/** Checks the harness, because a misspelled capability would silently leave out cases. */
function checkHarness(harness: ConformanceHarness): void {
  checkKeys(
    "ConformanceHarness",
    harness,
    listKeys<ConformanceHarness>({ name: true, module: true, capabilities: true, offers: true, newLocation: true }),
  );
  const { capabilities, module, newLocation, offers = [] } = harness;
  const known = listKeys<AdapterCapabilities>({ durable: true, multiProcess: true });
  checkKeys("ConformanceHarness.capabilities", capabilities, known);
  const missing = known.find((name) => typeof capabilities[name] !== "boolean");
  if (missing !== undefined) throw new TypeError(`ConformanceHarness.capabilities.${missing} must be true or false.`);
  const unknown = offers.find((method) => !OPTIONAL_METHODS.includes(method));
  if (unknown !== undefined) {
    throw new TypeError(`ConformanceHarness.offers has "${unknown}". Known: ${OPTIONAL_METHODS.join(", ")}.`);
  }
  if (typeof module !== "string" && !(module instanceof URL)) {
    throw new TypeError("ConformanceHarness.module must be the URL or the path of a JavaScript module.");
  }
  if (typeof newLocation !== "function") throw new TypeError("ConformanceHarness.newLocation must be a function.");
}

function listStates(
  { needs, about, replayed }: ConformanceCase,
  { capabilities, offers = [] }: ConformanceHarness,
): LifecycleState[] {
  if (about !== undefined && !offers.includes(about)) return [];
  if (needs !== undefined && !capabilities[needs]) return [];
  return replayed && capabilities.durable ? ["fresh", "reopened"] : ["fresh"];
}
