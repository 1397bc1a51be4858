import type { RepairOptions, RepairResult } from "waymark";
import type { QuerySession } from "../store.js";

/** The completed steps of a repair that was stopped. */
export interface StoppedRepair extends Pick<RepairResult, "dryRun" | "steps"> {
  readonly stopped: true;
}

/** A repair, with the reason if it stopped midway. */
export type RepairOutcome =
  | { readonly result: RepairResult }
  | { readonly result: StoppedRepair; readonly reason: unknown };

/** Repairs the storage. If the repair fails midway or its signal aborts, returns the completed steps. */
export async function repairStorage({ manager }: QuerySession, options: RepairOptions): Promise<RepairOutcome> {
  let steps: RepairResult["steps"] = [];
  const onProgress = (soFar: RepairResult): void => {
    steps = soFar.steps;
    options.onProgress?.(soFar);
  };
  try {
    return { result: await manager.maintenance.repair({ ...options, onProgress }) };
  } catch (reason) {
    return { result: { dryRun: false, steps, stopped: true }, reason };
  }
}
