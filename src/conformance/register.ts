import { CaseStore } from "./case-store.js";
import { conformanceCases } from "./cases/index.js";
import type { ConformanceCase, LifecycleState } from "./conformance-case.js";
import type { ConformanceHarness, ConformanceRunner } from "./harness.js";

/**
 * Registers every case that the adapter owes, as its declared capabilities say, with a test runner.
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
  runner.describe(`${harness.name} keeps the storage contract`, () => {
    for (const conformanceCase of conformanceCases) {
      for (const state of statesOf(conformanceCase, harness)) {
        const title = `${conformanceCase.name}${state === "fresh" ? "" : `, ${state}`}: ${conformanceCase.promise}`;
        runner.it(title, () => runConformanceCase(conformanceCase, harness, state));
      }
    }
  });
}

/**
 * Runs one case in a new place, whatever the adapter declares.
 *
 * @throws {Error} What the adapter failed to do; an `AssertionError` that cites the contract, as a rule.
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
    // What fails while clearing up after a failed case says less than the case does.
    await store.release().catch(() => undefined);
    throw error;
  }
  await store.release();
}

function statesOf({ needs, replayed }: ConformanceCase, { capabilities }: ConformanceHarness): LifecycleState[] {
  if (needs !== undefined && !capabilities[needs]) return [];
  return replayed && capabilities.durable ? ["fresh", "reopened"] : ["fresh"];
}
