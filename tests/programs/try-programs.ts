import { join } from "node:path";
import fc from "fast-check";
import { openStorage } from "waymark/adapters";
import { draft } from "../unit/adapters/files/drafts.js";
import { cases } from "./cases.js";
import { leaseCases, leaseViolations } from "./leases.js";
import { violationsOf } from "./lives.js";

/**
 * Executes random programs in simulated time: in memory, beside random lives of leases, or each on a new store in a
 * folder.
 *
 * @param stores - The kind of the stores, as in a storage's URL, and their folder.
 * @throws An error with a case and its violations.
 */
export async function tryPrograms(
  numRuns: number,
  seed: number,
  stores?: { readonly kind: string; readonly folder: string },
): Promise<void> {
  let opened = 0;
  const check = fc.asyncProperty(cases, async (one) => {
    const storage = stores && openStorage(`${stores.kind}:${join(stores.folder, `store-${++opened}`)}`);
    assertNone(await violationsOf(one, storage));
    // A close waits for the calls under way.
    const late = storage?.append(draft("late", "a"));
    await storage?.close();
    await late;
  });
  const settings = { numRuns, seed, endOnFailure: true };
  if (stores === undefined) {
    const checkLease = fc.asyncProperty(leaseCases, async (one) => assertNone(await leaseViolations(one)));
    await fc.assert(checkLease, settings);
  }
  await fc.assert(check, settings);
}

function assertNone(violations: readonly string[]): void {
  if (violations.length > 0) throw new Error(violations.join("\n"));
}
