/**
 * The conformance suite tests whether a storage adapter meets Waymark's contract (`StorageAdapter`), under any test
 * runner. Each obligation has a case. Only the adapter's declarations decide which cases run.
 *
 * @module
 */
export { conformanceCases } from "./cases/index.js";
export type { ConformanceCase, ConformanceStore, LifecycleState } from "./conformance-case.js";
export type {
  ConformanceHarness,
  ConformanceModule,
  ConformanceRunner,
  DamagedPart,
  OptionalMethod,
} from "./harness.js";
export type { LastWords, OtherProcess } from "./other-process.js";
export type { Call, Method } from "./protocol.js";
export { registerConformance, runConformanceCase } from "./register.js";
