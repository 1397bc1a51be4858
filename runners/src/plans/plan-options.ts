import { relative, resolve, sep } from "node:path";
import type { Logger } from "waymark";
import type { PrpOutput } from "../prp/output.js";
import type { Spent } from "./item-work.js";

export interface RunPlanOptions {
  /** `claude`, `codex`, or a command for `sh` that reads its prompt on stdin. */
  readonly coder: string;
  /** Commands that must succeed after each item. */
  readonly gates: readonly string[];
  /** Allows items without any gate. Default false. */
  readonly allowsNoGates?: boolean | undefined;
  /** How many times the coder may try again, for each item. Default 2. */
  readonly maxFixes?: number | undefined;
  /** How long a gate may take, in milliseconds. Default 1,800,000: 30 minutes. */
  readonly gateTimeoutMs?: number | undefined;
  /** How long the coder may take, in milliseconds. Default: no limit. */
  readonly coderTimeoutMs?: number | undefined;
  /** Makes one commit per item. Default false. */
  readonly commits?: boolean | undefined;
  /** Pauses the run after this many items. Default: never. */
  readonly maxItems?: number | undefined;
  /** With `commits`: lets earlier uncommitted changes land in the first item's commit. Default false. */
  readonly allowsDirty?: boolean | undefined;
  /** How many parallel items may be worked on at once; more than 1 needs `worktrees`. Default 1. */
  readonly jobs?: number | undefined;
  /** Gives each parallel item its own git worktree, in `.waymark/worktrees`. Needs `commits`. Default false. */
  readonly worktrees?: boolean | undefined;
  /** Runs only these items, even if they are optional or deferred. Default: all open items that aren't optional. */
  readonly only?: readonly string[] | undefined;
  readonly budget?:
    | { readonly usd?: number | undefined; readonly tokens?: number | undefined; readonly minutes?: number | undefined }
    | undefined;
  readonly tag?: string | undefined;
  /** Where the coder and the gates run. Default: the current folder. */
  readonly cwd?: string | undefined;
  /** Pauses the run when it aborts. */
  readonly signal?: AbortSignal | undefined;
  readonly output?: PrpOutput | undefined;
  readonly logger: Logger;
}

/** What is recorded about an item. */
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

/** Returns the task of a plan's run, such as `plan/specs/001/tasks.md`. */
export function planTask(path: string, cwd = "."): string {
  return `plan/${relative(resolve(cwd), resolve(path)).split(sep).join("/")}`;
}
