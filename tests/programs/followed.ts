// Follows a task through all of its lives from another process, and compares the received records with the stored ones.
import type { CheckpointManager } from "waymark";
import { z } from "zod";
import type { FollowedItem } from "../../src/runs/follower.js";
import { collect } from "../support/collect.js";
import type { Seen } from "./seen.js";

export class FollowedTask {
  readonly #manager: CheckpointManager;
  readonly #task: string;
  readonly #items: FollowedItem[] = [];
  readonly #over = new AbortController();
  #following: Promise<void> | undefined;

  constructor(manager: CheckpointManager, task: string) {
    this.#manager = manager;
    this.#task = task;
  }

  /** Starts following. Call it before each life, because a failure ends a follower. */
  follow(): void {
    this.#following ??= this.#take(this.#over.signal).finally(() => {
      this.#following = undefined;
    });
  }

  /** Ends the follower. Resolves to the violations. @param isOver - Whether the task has ended. */
  async check(isOver: boolean): Promise<readonly string[]> {
    this.#over.abort();
    await this.#following;
    if (isOver) await this.#take(undefined);
    const violations: string[] = [];
    const sequences = this.#items.map(({ sequence }) => sequence);
    if (sequences.some((sequence, at) => at > 0 && sequence <= (sequences[at - 1] ?? 0)))
      violations.push(`${this.#task} was followed in the order ${sequences.join(", ")}`);
    const came = new Map(this.#items.map((item) => [item.sequence, JSON.stringify(item)]));
    const last = isOver ? Number.POSITIVE_INFINITY : (sequences.at(-1) ?? 0);
    const stored = await collect(this.#manager.records(this.#task));
    for (const record of stored.filter(({ sequence }) => sequence <= last)) {
      // A checkpoint's status may change, and the value of a received event is removed.
      const mayChange = record.kind === "checkpoint" || record.kind === "event";
      const item = came.get(record.sequence);
      if (item === undefined || (!mayChange && item !== JSON.stringify(record)))
        violations.push(`${this.#task} was followed without its record ${record.sequence}`);
    }
    const isKnown = new Set(stored.map(({ sequence }) => sequence));
    // An automatic checkpoint may have been replaced.
    for (const { sequence, kind } of this.#items)
      if (kind !== "checkpoint" && !isKnown.has(sequence))
        violations.push(`${this.#task} was followed to a ${kind} ${sequence} that isn't stored`);
    return violations;
  }

  async #take(signal: AbortSignal | undefined): Promise<void> {
    const afterSequence = this.#items.at(-1)?.sequence;
    try {
      for await (const item of this.#manager.follow(this.#task, { afterSequence, signal })) this.#items.push(item);
    } catch (error) {
      if (!signal?.aborted) throw error;
    }
  }
}

/** Checks that all chunks that a step has written are stored before its result, in order. */
export async function chunkViolations(
  manager: CheckpointManager,
  task: string,
  seen: readonly Seen[],
): Promise<readonly string[]> {
  const isRefused = (life: string) =>
    seen.some((line) => line.is === "stopped" && line.life === life && line.reason !== "RUN_PAUSED");
  // A fork copies results without their chunks.
  const made = seen.flatMap((line) => (line.is === "made" && line.task === task && !isRefused(line.life) ? line : []));
  const written = new Map(made.map(({ value, chunks }) => [value, chunks]));
  const stored = new Map<string, number[]>();
  const violations: string[] = [];
  for await (const record of manager.records(task, { kinds: ["chunk", "step"] })) {
    const chunk = CHUNK.safeParse(record).data?.value.chunk;
    if (chunk) stored.set(chunk.of, [...(stored.get(chunk.of) ?? []), chunk.number]);
    const result = STEP.safeParse(record).data?.value.result ?? "";
    const count = written.get(result);
    const expected = Array.from({ length: count ?? 0 }, (_, number) => number).join(", ");
    const before = (stored.get(result) ?? []).join(", ");
    if (count !== undefined && before !== expected)
      violations.push(
        `${result} of ${task} wrote the chunks ${expected}, and "${before}" are stored before its result`,
      );
  }
  return violations;
}

const CHUNK = z.object({ value: z.object({ chunk: z.object({ of: z.string(), number: z.number() }) }) });
const STEP = z.object({ kind: z.literal("step"), value: z.object({ result: z.string() }) });
