import fc from "fast-check";
import { expect } from "vitest";
import type { StorageAdapter } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { draft } from "../../conformance/drafts.js";
import { messages, take } from "./histories.js";

/** Chooses a task. Most saves of a run go to one task, so that its history gets bundles. */
const task = fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) });
const which = fc.nat(20);
const operation = fc.oneof(
  {
    weight: 150,
    arbitrary: fc.record({ do: fc.constant("save" as const), task, edit: fc.nat(99), size: fc.nat(9) }),
  },
  { weight: 20, arbitrary: fc.record({ do: fc.constant("remove" as const), task, which }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("fork" as const), task, which }) },
  { weight: 12, arbitrary: fc.record({ do: fc.constant("replace" as const), task, which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("removeTask" as const), task }) },
);

interface Save {
  readonly edit: number;
  readonly size: number;
}

/** Chooses the next state: a small one, the same, an older one, or one that is changed in a place or longer. */
function nextOf(texts: readonly string[]) {
  return ({ edit, size }: Save, parts: string[], kept: readonly string[]): string => {
    if (size === 9) return JSON.stringify({ small: edit });
    if (size === 8 && edit < 30 && kept.length > 0) return kept[edit % kept.length] ?? "";
    if (size < 4) parts.splice(1 + (edit % parts.length), 1, texts[edit] ?? "");
    else if (size < 8) parts.push(texts[edit] ?? "");
    return JSON.stringify(parts);
  };
}

function newestOf(adapter: StorageAdapter, taskId: string) {
  return adapter.read({ taskId, order: "newest", limit: 1 });
}

/**
 * Saves, forks, removes and replaces checkpoints at random through two adapters of one store, and compares the store
 * with a map in memory. `checkEmpty` checks that nothing is left after each run.
 *
 * @param bundles - Returns the current number of bundles. If there are many runs, some must make bundles.
 */
export async function checkRandomHistories(
  adapters: readonly [StorageAdapter, StorageAdapter],
  {
    runs,
    bundles,
    checkEmpty,
  }: {
    readonly runs: number;
    readonly bundles: () => Promise<number>;
    readonly checkEmpty: () => Promise<void>;
  },
): Promise<void> {
  const texts = [...take(messages(150), 100)];
  // The state is so large that a delta is small in comparison.
  const begin = [...take(messages(60_000), 1)];
  const next = nextOf(texts);
  let run = 0;
  let seen = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 100, maxLength: 250, size: "max" }), async (operations) => {
      run += 1;
      const tasks = [0, 1].map((task) => ({
        taskId: `run ${run} task ${task}`,
        kept: new Map<string, string>(),
        parts: [...begin],
      }));
      for (const [step, op] of operations.entries()) {
        const [task, other] = op.task === 0 ? [tasks[0]!, tasks[1]!] : [tasks[1]!, tasks[0]!];
        const { taskId, kept } = task;
        const adapter = adapters[step % 3 === 0 ? 1 : 0];
        if (op.do === "save") {
          // Simultaneous saves are one statement, so a read at the same time sees the state before or after all of
          // them.
          const appended = (step % 5 === 0 ? [task, other] : [task]).map((to) => {
            const body = next(op, to.parts, [...to.kept.values()]);
            to.kept.set(`c${step}`, body);
            return adapter.append(draft(to.taskId, `c${step}`, { body }));
          });
          if (step % 4 === 0) for await (const found of newestOf(adapter, taskId)) expect(isCorrupt(found)).toBe(false);
          await Promise.all(appended);
          continue;
        }
        if (op.do === "removeTask") {
          expect(await adapter.remove(taskId, "all")).toBe(kept.size);
          kept.clear();
          continue;
        }
        const [id, body] = [...kept][op.which % Math.max(1, kept.size)] ?? [];
        if (id === undefined || body === undefined) continue;
        if (op.do === "remove") {
          expect(await adapter.remove(taskId, [id])).toBe(1);
          kept.delete(id);
        } else if (op.do === "fork") {
          await adapter.append(draft(other.taskId, `c${step}`, { body }), {}, { sharesWith: { taskId, id } });
          other.kept.set(`c${step}`, body);
        } else {
          const replacement = draft(taskId, id, { body: JSON.stringify({ replaced: body }) }).payload;
          const { sha256 } = draft(taskId, id, { body }).payload;
          expect(await adapter.replacePayload?.(taskId, id, replacement, sha256)).toBe(true);
          kept.set(id, String(replacement.body));
        }
      }
      seen += await bundles();
      for (const { taskId, kept } of tasks) {
        for (const adapter of adapters) {
          const found: [string, string][] = [];
          for await (const one of adapter.read({ taskId, order: "oldest" })) {
            found.push(isCorrupt(one) ? ["corrupt", one.reason] : [one.id, String(one.payload.body)]);
          }
          expect(found).toEqual([...kept]);
        }
        for await (const newest of newestOf(adapters[1], taskId)) {
          expect(newest).toMatchObject({ payload: { body: [...kept.values()].at(-1) } });
        }
        await adapters[0].remove(taskId, "all");
      }
      await checkEmpty();
    }),
    { numRuns: runs },
  );
  // Few runs may make no bundle.
  if (runs >= 20) expect(seen).toBeGreaterThan(0);
}
