import type { AdapterCapabilities, StorageAdapter } from "../src/contract/adapter.js";
import type { DamagedPart, OptionalMethod } from "./harness.js";
import type { OtherProcess } from "./other-process.js";

/** One obligation of the contract, as a test that throws if an adapter doesn't meet it. */
export interface ConformanceCase {
  /** A stable name, such as `append.never-reuses`. The contract's documentation names the cases that enforce it. */
  readonly name: string;
  /** The adapter's obligation, as a sentence without its subject "an adapter". */
  readonly promise: string;
  /** The capability that an adapter needs for this case. Default: the case runs for every adapter. */
  readonly needs?: keyof AdapterCapabilities;
  /** The optional part that the case tests. The case runs only if the harness offers this part. */
  readonly about?: OptionalMethod;
  /**
   * True if the case runs a second time for durable adapters, with the store closed and reopened between writing and
   * reading.
   */
  readonly replayed?: true;
  run(store: ConformanceStore): Promise<void>;
}

/** Whether `carryOn` keeps the instance or reopens the store. */
export type LifecycleState = "fresh" | "reopened";

/** A case's own store, and ways to open it. Everything that the case opens is closed afterwards. */
export interface ConformanceStore {
  readonly location: string;
  readonly capabilities: AdapterCapabilities;
  readonly offers: readonly OptionalMethod[];
  /** Opens a new instance on the location. */
  open(): Promise<StorageAdapter>;
  /**
   * In the lifecycle state `reopened`, closes the instance and opens a new one. In the state `fresh`, returns the same
   * instance.
   */
  carryOn(adapter: StorageAdapter): Promise<StorageAdapter>;
  /** Closes the instance and opens a new one, in both lifecycle states. */
  reopen(adapter: StorageAdapter): Promise<StorageAdapter>;
  /** Closes the instance, damages the checkpoint and opens a new one. */
  damage(adapter: StorageAdapter, taskId: string, id: string, part: DamagedPart): Promise<StorageAdapter>;
  /** Closes the instance, damages the record's body and opens a new instance. */
  damageRecord(adapter: StorageAdapter, taskId: string, sequence: number): Promise<StorageAdapter>;
  /** Opens an instance in another process. */
  elsewhere(): Promise<OtherProcess>;
}
