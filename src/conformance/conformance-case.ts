import type { AdapterCapabilities, StorageAdapter } from "../contract/adapter.js";
import type { DamagedPart, OptionalMethod } from "./harness.js";
import type { OtherProcess } from "./other-process.js";

/** One obligation of the contract, as a program that throws where an adapter doesn't meet it. */
export interface ConformanceCase {
  /** Stable: `append.never-reuses`. The contract's documentation names the cases that enforce it. */
  readonly name: string;
  /** What the adapter owes, in one sentence. */
  readonly promise: string;
  /** The capability an adapter must declare for this to be owed. Without one it is owed by every adapter. */
  readonly needs?: keyof AdapterCapabilities;
  /** The optional method that it is about: it is owed where the harness says that the adapter has it. */
  readonly about?: OptionalMethod;
  /** Whether a durable adapter owes it a second time with the store closed and opened between writing and reading. */
  readonly replayed?: true;
  run(store: ConformanceStore): Promise<void>;
}

/** The one instance a case works with all along, or a new one after each `carryOn`. */
export type LifecycleState = "fresh" | "reopened";

/** What a case has to work with: a place of its own, and the ways to reach it. All it opened is closed after it. */
export interface ConformanceStore {
  readonly location: string;
  readonly capabilities: AdapterCapabilities;
  readonly offers: readonly OptionalMethod[];
  /** A new instance on the location. */
  open(): Promise<StorageAdapter>;
  /** Where a replayed case goes from writing to reading: the same instance, or that one closed and a new one opened. */
  carryOn(adapter: StorageAdapter): Promise<StorageAdapter>;
  /** Closes the instance and opens a new one, in either lifecycle state. */
  reopen(adapter: StorageAdapter): Promise<StorageAdapter>;
  /** Closes the instance, damages the checkpoint and opens a new one. */
  damage(adapter: StorageAdapter, taskId: string, id: string, part: DamagedPart): Promise<StorageAdapter>;
  /** An instance in a process of its own. */
  elsewhere(): Promise<OtherProcess>;
}
