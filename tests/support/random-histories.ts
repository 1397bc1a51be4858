import fc from "fast-check";
import { expect } from "vitest";
import { isCorrupt, type StorageAdapter } from "waymark/adapter";
import { draft } from "../../src/conformance/drafts.js";
import { messages, take } from "./histories.js";

/** Most of a run is one task's, so that its history gets bundles. */
const task = fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) });
const which = fc.nat(20);
const operation = fc.oneof(
  {
    weight: 150,
    arbitrary: fc.record({ do: fc.constant("save" as const), task, edit: fc.nat(99), size: fc.nat(9) }),
  },
  { weight: 24, arbitrary: fc.record({ do: fc.constant("remove" as const), task, which }) },
  { weight: 12, arbitrary: fc.record({ do: fc.constant("fork" as const), task, which }) },
  { weight: 12, arbitrary: fc.record({ do: fc.constant("replace" as const), task, which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("removeTask" as const), task }) },
);

/**
 * Saves, forks, removals and replacements at random, through two adapters of one store, leave what a map in memory has.
 * After each run nothing is left: `checkEmpty` says whether that's so.
 */
export async function checkRandomHistories(
  adapters: readonly [StorageAdapter, StorageAdapter],
  { runs, checkEmpty }: { readonly runs: number; readonly checkEmpty: () => Promise<void> },
): Promise<void> {
  const texts = [...take(messages(150), 100)];
  // So large that a delta is small beside it.
  const begin = [...take(messages(20_000), 1)];
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 100, maxLength: 250, size: "max" }), async (operations) => {
      run += 1;
      const taskIds = [`run ${run} task 0`, `run ${run} task 1`] as const;
      const model = [new Map<string, string>(), new Map<string, string>()] as const;
      const current: readonly [string[], string[]] = [[...begin], [...begin]];
      for (const [step, op] of operations.entries()) {
        const at = op.task === 0 ? 0 : 1;
        const [taskId, kept, parts]: [string, Map<string, string>, string[]] = [taskIds[at], model[at], current[at]];
        const adapter = adapters[step % 3 === 0 ? 1 : 0];
        if (op.do === "save") {
          if (op.size < 3) parts.splice(1 + (op.edit % parts.length), 1, texts[op.edit] ?? "");
          else if (op.size < 9) parts.push(texts[op.edit] ?? "");
          const body = JSON.stringify(op.size === 9 ? { small: op.edit } : parts);
          await adapter.append(draft(taskId, `c${step}`, { body }));
          kept.set(`c${step}`, body);
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
          await adapter.append(draft(taskIds[1 - at] ?? "", `c${step}`, { body }), { sharesWith: { taskId, id } });
          model[at === 0 ? 1 : 0].set(`c${step}`, body);
        } else {
          const replacement = draft(taskId, id, { body: JSON.stringify({ replaced: body }) }).payload;
          const { sha256 } = draft(taskId, id, { body }).payload;
          expect(await adapter.replacePayload?.(taskId, id, replacement, sha256)).toBe(true);
          kept.set(id, String(replacement.body));
        }
      }
      for (const [at, kept] of model.entries()) {
        const taskId = taskIds[at === 0 ? 0 : 1];
        for (const adapter of adapters) {
          const found: [string, string][] = [];
          for await (const one of adapter.read({ taskId, order: "oldest" })) {
            found.push(isCorrupt(one) ? ["corrupt", one.reason] : [one.id, String(one.payload.body)]);
          }
          expect(found).toEqual([...kept]);
        }
        for await (const newest of adapters[1].read({ taskId, order: "newest", limit: 1 })) {
          expect(newest).toMatchObject({ payload: { body: [...kept.values()].at(-1) } });
        }
        await adapters[0].remove(taskId, "all");
      }
      await checkEmpty();
    }),
    { numRuns: runs },
  );
}
