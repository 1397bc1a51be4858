import type { AdapterCapabilities, StorageAdapter } from "../src/contract/adapter.js";

/** The facts about an adapter that the suite needs. */
export interface ConformanceHarness {
  /** The name in reports: `json-file`. */
  readonly name: string;
  /**
   * A built JavaScript module, as a URL or a path, with the exports of {@link ConformanceModule}. The suite imports the
   * module in this process and in processes that it starts, and kills some of these processes.
   */
  readonly module: URL | string;
  /**
   * The capabilities that the adapter declares. They decide which cases run. One case checks that the adapter declares
   * the same capabilities.
   */
  readonly capabilities: AdapterCapabilities;
  /** The optional parts that the adapter has, and whose cases run. Default: none. */
  readonly offers?: readonly OptionalMethod[] | undefined;
  /** A new, empty location for one case: a folder or file that needn't exist yet, or a URL. */
  newLocation(): Promise<string> | string;
}

/** A part that an adapter may leave out. */
export type OptionalMethod = "leases" | "log" | "maintenance" | "queue" | "removePrefix" | "replacePayload";

/** All optional parts. */
export const OPTIONAL_METHODS: readonly OptionalMethod[] = [
  "leases",
  "log",
  "maintenance",
  "queue",
  "removePrefix",
  "replacePayload",
];

/** The exports of the harness's module. */
export interface ConformanceModule {
  /** Opens an adapter on a location, in any process. Other adapters may also have the location open. */
  open(location: string): StorageAdapter | Promise<StorageAdapter>;
  /**
   * Damages one stored checkpoint as a failing disk would. During the call, no adapter has the location open. The
   * module of a durable adapter must export this function.
   */
  damage?(location: string, taskId: string, id: string, part: DamagedPart): void | Promise<void>;
  /**
   * Damages the body of one record in a log, as {@link ConformanceModule.damage} does for a checkpoint. The module of a
   * durable adapter with a log must export this function.
   */
  damageRecord?(location: string, taskId: string, sequence: number): void | Promise<void>;
}

/**
 * The damage to a stored checkpoint. `summary`: `list` can't read the checkpoint any more. `payload`: the body differs
 * from the saved one. `missing`: only the body is gone. If a store keeps all parts in one place, more parts may be
 * damaged.
 */
export type DamagedPart = "summary" | "payload" | "missing";

/** All ways to damage a checkpoint. */
export const DAMAGED_PARTS: readonly DamagedPart[] = ["summary", "payload", "missing"];

/** The functions of a test runner: vitest, node:test, Mocha, Jasmine or Jest. */
export interface ConformanceRunner {
  readonly describe: (title: string, body: () => void) => unknown;
  readonly it: (title: string, body: () => Promise<void>) => unknown;
}
