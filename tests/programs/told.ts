import fc from "fast-check";
import { randomOf } from "../chaos/plan.js";
import type { StorageName } from "../chaos/store.js";
import { changeable, changed, changes, effortOf, type Program, programs } from "./program.js";

/** The settings that a process of random programs gets. */
export interface Told {
  readonly name: string;
  /**
   * A `work` process works on the tasks of {@link WORKED}, a `run` process calls `manager.run` for those of {@link
   * CALLED}.
   */
  readonly role: "work" | "run";
  readonly storage: StorageName;
  /** A URL or a path. */
  readonly place: string;
  readonly seed: number;
  readonly ttlMs: number;
  /** The version of the code. */
  readonly code: number;
  /** The folder of the processes' notes. */
  readonly seen: string;
  readonly histories: string;
}

export const WORKED = "work/";
export const CALLED = "run/";

/** The limit for a program's effort. With more, runs don't end within seconds while their processes are killed. */
const MAX_EFFORT = 120;
const shortPrograms = programs.filter((program) => effortOf(program) <= MAX_EFFORT);

/** Returns the program of a task and of its forks in a version of the code. */
export function programOf(seed: number, task: string, code: number): Program {
  const [, number = ""] = /^\w+\/(\d+)/.exec(task) ?? [];
  const own = seed + Number(number) * 7919;
  const [program = []] = fc.sample(shortPrograms, { seed: own, numRuns: 1 });
  const made = fc.sample(changes, { seed: own, numRuns: 3 });
  return made.slice(0, code - 1).reduce(changed, changeable(program));
}

/** Whether a task isn't a child run. */
export function isOuter(task: string): boolean {
  return /^\w+\/[^/]+$/.test(task);
}

/** Returns functions for random numbers from 0 to 1 and for choices. */
export function chance(seed: number) {
  const random = randomOf(seed);
  return {
    random,
    below: (limit: number) => Math.floor(random() * limit),
    pick: <Item>(items: readonly Item[]): Item | undefined => items[Math.floor(random() * items.length)],
  };
}
