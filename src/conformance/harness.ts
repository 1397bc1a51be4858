import type { AdapterCapabilities, StorageAdapter } from "../contract/adapter.js";

/** What the suite needs to know of an adapter to test it. */
export interface ConformanceHarness {
  /** What reports call it: `json-file`. */
  readonly name: string;
  /**
   * A built JavaScript module, as a URL or a path, that exports what {@link ConformanceModule} says. The suite imports
   * it in this process and in the processes it starts, so that several of them can open one store, or be killed.
   */
  readonly module: URL | string;
  /** What the adapter declares. It decides which cases run, and a case compares the two. */
  readonly capabilities: AdapterCapabilities;
  /** Which of the contract's optional methods the adapter has. Default: none. Their cases run where they are named. */
  readonly offers?: readonly OptionalMethod[] | undefined;
  /** An empty place for one case, never given twice: a folder or a file that needn't exist, or a URL. */
  newLocation(): Promise<string> | string;
}

/** A method that an adapter may leave out. */
export type OptionalMethod = "maintenance" | "removeTasks" | "replacePayload";

/** All of them. */
export const OPTIONAL_METHODS: readonly OptionalMethod[] = ["maintenance", "removeTasks", "replacePayload"];

/** What the harness's module exports. */
export interface ConformanceModule {
  /** Opens an adapter on a location, in any process, while others are open on it or not. */
  open(location: string): StorageAdapter | Promise<StorageAdapter>;
  /**
   * Damages one stored checkpoint behind the adapter's back, as a failing disk would, with no adapter open on the
   * location. Durable adapters must offer it.
   */
  damage?(location: string, taskId: string, id: string, part: DamagedPart): void | Promise<void>;
}

/**
 * Which part of a stored checkpoint is damaged: `summary`, so that `list` can't make it out any more, or `payload`, so
 * that the body is another than was stored. A store that keeps the two as one may damage both, either time.
 */
export type DamagedPart = "summary" | "payload";

/** Both parts, for cases that must hold for each. */
export const DAMAGED_PARTS: readonly DamagedPart[] = ["summary", "payload"];

/** What registers the cases: of vitest, node:test, Mocha, Jasmine or Jest. */
export interface ConformanceRunner {
  readonly describe: (title: string, body: () => void) => unknown;
  readonly it: (title: string, body: () => Promise<void>) => unknown;
}
