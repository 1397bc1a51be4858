import { relative, resolve, sep } from "node:path";
import type { Logger } from "waymark";
import type { PrpOutput } from "../prp/output.js";
import type { Spent } from "./item-work.js";

export interface RunPlanOptions {
  /** `claude`, `codex`, or a command for `sh` that reads its prompt on stdin. */
  readonly coder: string;
  /** Commands that must succeed after each item. */
  readonly gates: readonly string[];
  /** Items may have no gate at all. Default false. */
  readonly allowsNoGates?: boolean | undefined;
  /** How often the coder may try again, for each item. Default 2. */
  readonly maxFixes?: number | undefined;
  /** How long a gate may take, in milliseconds. Default 1,800,000: 30 minutes. */
  readonly gateTimeoutMs?: number | undefined;
  /** Default: no limit. */
  readonly coderTimeoutMs?: number | undefined;
  /** Makes one commit per item. Default false. */
  readonly commits?: boolean | undefined;
  /** Pauses the run after so many items. Default: all. */
  readonly maxItems?: number | undefined;
  /** With `commits`: the first item's commit may contain what is changed already. Default false. */
  readonly allowsDirty?: boolean | undefined;
  /** How many items that are marked as parallel may be worked on at once; more than 1 needs `worktrees`. Default 1. */
  readonly jobs?: number | undefined;
  /** Parallel items have a git worktree each, in `.waymark/worktrees`. Needs `commits`. Default false. */
  readonly worktrees?: boolean | undefined;
  /** Runs these items only, also optional and deferred ones. Default: all that are open. */
  readonly only?: readonly string[] | undefined;
  readonly budget?:
    | { readonly usd?: number | undefined; readonly tokens?: number | undefined; readonly minutes?: number | undefined }
    | undefined;
  readonly tag?: string | undefined;
  /** Where the coder and the gates run. Default: the current folder. */
  readonly cwd?: string | undefined;
  /** Pauses the run. */
  readonly signal?: AbortSignal | undefined;
  readonly output?: PrpOutput | undefined;
  readonly logger: Logger;
}

/** What is recorded of an item. */
export interface ItemRecord extends Spent {
  readonly title: string;
  readonly status: "done" | "failed";
  readonly commit?: string;
}

/** The state of a plan's run: its items, by their ids. */
export interface PlanState {
  readonly items: Readonly<Record<string, ItemRecord>>;
}

export interface PlanResult {
  readonly success: true;
  /** The items that this call has finished. */
  readonly done: readonly string[];
  /** The items that are still open. */
  readonly open: readonly string[];
  readonly spent: Spent;
}

/** The task of a plan's run: `plan/specs/001/tasks.md`. */
export function planTask(path: string, cwd = "."): string {
  return `plan/${relative(resolve(cwd), resolve(path)).split(sep).join("/")}`;
}
