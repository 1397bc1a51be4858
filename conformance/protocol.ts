import type { StorageAdapter } from "../src/contract/adapter.js";
import type { LeaseStore } from "../src/contract/leases.js";
import type { TaskLog } from "../src/contract/log.js";
import type { TaskQueue } from "../src/contract/task-queue.js";

/** The methods that can be called in another process. */
export type Method = "append" | "get" | "read" | "list" | "tasks" | "setStatus" | "remove" | "replacePayload" | "close";

/** The methods of a task's log that can be called in another process. */
type LogMethod = "append" | "read" | "remove" | "replacePayloads";

/** One call of a method of an adapter, its lease store or its log. */
export type Call =
  | {
      readonly [Name in Method]: {
        readonly method: Name;
        readonly args: Parameters<NonNullable<StorageAdapter[Name]>>;
      };
    }[Method]
  | {
      readonly [Name in keyof LeaseStore]: { readonly method: Name; readonly args: Parameters<LeaseStore[Name]> };
    }[keyof LeaseStore]
  | {
      readonly [Name in LogMethod]: {
        readonly method: `log.${Name}`;
        readonly args: Parameters<NonNullable<TaskLog[Name]>>;
      };
    }[LogMethod]
  | { readonly method: "claimNext"; readonly args: Parameters<TaskQueue["claimNext"]> }
  | { readonly method: "count"; readonly args: Parameters<TaskQueue["count"]> };

/** A message from the suite to another process. */
export type Request =
  | { readonly kind: "answer"; readonly number: number; readonly call: Call }
  /** The process writes the call's answer to its standard output, and then dies at once. */
  | { readonly kind: "die-after"; readonly call: Call }
  /**
   * The process dies this many turns of the event loop after the call, or as soon as the call is answered, whichever is
   * sooner.
   */
  | { readonly kind: "die-within"; readonly call: Call; readonly turns: number }
  /** The process closes the adapter and exits. */
  | { readonly kind: "end" };

/** A message from another process to the suite. */
export type Response =
  | { readonly kind: "opened" }
  | { readonly kind: "answered"; readonly number: number; readonly answer: unknown }
  | { readonly kind: "refused"; readonly number: number; readonly message: string; readonly code: string | undefined };
