import { describe, expect, it } from "vitest";
import { SEED } from "../support/seeded.js";
import { count } from "./counts.js";
import { noStrace, recorded } from "./crash-process.js";
import { CrashSite } from "./crash-site.js";
import { DiskModel } from "./disk-model.js";
import { isLazy, OPERATIONS, SESSIONS, type StoreKind } from "./operations.js";
import { type Allowed, PowerLosses } from "./power-loss.js";
import { CHANGING, OPENING, storeIn } from "./store-calls.js";

const KINDS: readonly StoreKind[] = ["json-file", "task-file", "sqlite", "sqlite-normal"];

describe.skipIf(noStrace !== undefined)(`a power loss${noStrace ? ` (skipped: ${noStrace})` : ""}`, () => {
  for (const kind of KINDS) {
    const operations = [...OPERATIONS, ...SESSIONS].filter(({ only }) => only === undefined || only.includes(kind));
    for (const operation of operations) {
      it(`at any moment of ${kind}'s ${operation.name} takes nothing that must survive it`, async () => {
        await using site = await CrashSite.make(kind, operation);
        const copy = await site.copy();
        const model = new DiskModel(copy);
        const what = { calls: [...CHANGING, ...OPENING], data: true, thread: "other" } as const;
        const { ofStore, answers, history } = await recorded(kind, storeIn(copy), operation.calls, what);
        expect(answers.filter(({ code }) => code !== undefined)).toEqual([]);

        const losses = new PowerLosses(kind);
        let answered = 0;
        // Each call has two lines. With durability `normal`, nothing counts as acknowledged.
        const linesUntil = (line: number) => [
          ...site.history,
          ...history.slice(0, line + 1).filter((_, at) => kind !== "sqlite-normal" || at % 2 === 0),
        ];
        await losses.lose(model, allowed(site, answered), "before the first call", SEED, linesUntil(0));
        for (const call of model.run(ofStore)) {
          if (call.args[0] === "1") answered += 1;
          await losses.lose(
            model,
            allowed(site, answered),
            `after ${answered} answers and ${call.name} ${call.path ?? "of an answer"}`,
            SEED,
            linesUntil(2 * answered),
          );
        }
        expect(answered).toBe(operation.calls.length);
        const lost = losses.wrong.length;
        count({ what: "power losses", store: kind, operation: operation.name, tried: losses.disks, lost });
        expect(losses.wrong.slice(0, 3), `WAYMARK_SEED=${SEED}`).toEqual([]);
      });
    }
  }
});

/**
 * Returns the allowed contents. Durability `normal` may lose the last saves, but never a save without all later ones,
 * and never the database. The same is true of lazy records.
 */
function allowed({ kind, contents, operation }: CrashSite, answered: number): Allowed[] {
  let from = answered;
  while (from > 0 && (kind === "sqlite-normal" || isLazy(operation.calls[from - 1]))) from -= 1;
  return contents
    .slice(from, answered + 1)
    .map((before, at) => [before, contents[Math.min(from + at + 1, contents.length - 1)] ?? before]);
}
