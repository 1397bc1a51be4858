import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "waymark";
import { CheckpointError, CheckpointManager, gzip } from "waymark";
import { seal } from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import { parseFileName, toFileName } from "../../adapters/files/names.js";
import { printable } from "../../cli/src/printable.js";
import { draft } from "../unit/adapters/files/drafts.js";

const SECONDS = Number(process.env["WAYMARK_FUZZ_SECONDS"] ?? 0);
const PROPERTIES = 5;

/** The number of runs: a few in `npm test`, and as many as the time allows in `npm run fuzz`. */
const RUNS: fc.Parameters<unknown> =
  SECONDS > 0
    ? { numRuns: 1_000_000, interruptAfterTimeLimit: (SECONDS * 1000) / PROPERTIES, markInterruptAsFailure: false }
    : { numRuns: 200 };
const TIMEOUT_MS = SECONDS * 1000 + 60_000;

const anyText = fc.string({ unit: "binary", maxLength: 600 });
const anyName = anyText.filter((text) => text !== "" && text.length <= 512 && text.isWellFormed());

describe("whatever it is given", () => {
  it("a name belongs to one id, and leads to no other folder", { timeout: TIMEOUT_MS }, () => {
    fc.assert(
      fc.property(anyName, anyName, (one, other) => {
        const name = toFileName(one);
        expect(name).toMatch(/^[A-Za-z0-9_%-](?:[A-Za-z0-9._%~-]*[A-Za-z0-9_%~-])?$/);
        expect(name.length).toBeLessThanOrEqual(180);
        if (one !== other) expect(toFileName(other)).not.toBe(name);
        if (!name.includes("~")) expect(parseFileName(name)).toBe(one);
      }),
      RUNS,
    );
  });

  it("a state is returned unchanged, or is refused with a typed error", { timeout: TIMEOUT_MS }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true }),
        async (state) => {
          const manager = new CheckpointManager({ storage: new MemoryAdapter(), transforms: [gzip({ level: 1 })] });
          try {
            await manager.save("t", state);
          } catch (error) {
            expect(error).toBeInstanceOf(CheckpointError);
            return;
          }
          expect((await manager.latest("t"))?.state).toStrictEqual(state);
        },
      ),
      RUNS,
    );
  });

  it("a task id, a label and a metadata key are kept, or refused as arguments", { timeout: TIMEOUT_MS }, async () => {
    await fc.assert(
      fc.asyncProperty(anyText, anyText, fc.jsonValue(), async (taskId, label, json) => {
        const manager = new CheckpointManager({ storage: new MemoryAdapter() });
        const metadata = Object.fromEntries([[label, json as JsonObject[string]]]);
        try {
          await manager.save(taskId, null, { label, metadata });
        } catch (error) {
          expect(error instanceof CheckpointError || error instanceof TypeError || error instanceof RangeError).toBe(
            true,
          );
          return;
        }
        expect(await manager.latest(taskId)).toMatchObject({ taskId, label });
      }),
      RUNS,
    );
  });

  it("a seal changes with every field", { timeout: TIMEOUT_MS }, () => {
    fc.assert(
      fc.property(anyText, anyText, fc.constantFrom("label", "stage", "parentId", "id", "taskId"), (a, b, field) => {
        fc.pre(a !== b);
        const record = { ...draft("t", "c"), sequence: 1 };
        expect(seal({ ...record, [field]: a })).not.toBe(seal({ ...record, [field]: b }));
      }),
      RUNS,
    );
  });

  it("shown text has no control characters, and stays on one line", { timeout: TIMEOUT_MS }, () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(printable(text)).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Cs}]/u);
      }),
      RUNS,
    );
  });
});
