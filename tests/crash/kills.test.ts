import { rm } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import type { StoredCheckpoint } from "waymark/adapter";
import { type Attempt, aimedFaults, type Point } from "./aimed-fault.js";
import { count } from "./counts.js";
import { type Answer, noStrace, recorded } from "./crash-process.js";
import { CrashSite, forAll } from "./crash-site.js";
import { DiskModel } from "./disk-model.js";
import type { Examined } from "./examiner.js";
import { isFull, isTried } from "./extent.js";
import { type Contents, keyOf, OPERATIONS, STORES } from "./operations.js";
import { PowerLosses } from "./power-loss.js";
import { CHANGING, changes, namesOf, OPENING, storeIn } from "./store-calls.js";

/**
 * The stores and operations that `npm test` has time for. task-file has the same lock and commit as json-file, and the
 * conformance suite also kills sqlite.
 */
const SOME: Readonly<Record<string, readonly string[]>> = { "json-file": ["append"] };

/** `npm test` kills at every sixth call. */
const QUICK = 6;

/**
 * Whether kills also meet reads and locks: `npm run crash -- --every-call`. Such a kill leaves the same disk as a kill
 * at the next changing call.
 */
const isEvery = process.env["WAYMARK_CRASH_CALLS"] === "every";
/** Whether only a tenth of the kills is tried: `npm run crash -- --tenth`. */
const isTenth = process.env["WAYMARK_CRASH_CALLS"] === "tenth";

describe.skipIf(noStrace !== undefined)(`a process that is killed${noStrace ? ` (skipped: ${noStrace})` : ""}`, () => {
  for (const kind of STORES) {
    const operations = OPERATIONS.filter(({ only }) => only === undefined || only.includes(kind));
    for (const operation of operations.filter(({ name }) => isFull || SOME[kind]?.includes(name))) {
      it(`at any system call of ${kind}'s ${operation.name} loses nothing acknowledged`, async () => {
        await using site = await CrashSite.make(kind, operation);
        const points = await rehearse(site);
        const losses = new PowerLosses(kind);
        const tried = points.filter((_point, at) => (isTenth ? isTried(at) : isFull || at % QUICK === 0));
        const outcomes = await forAll(tried, (point) => killAt(site, point, losses));

        const lost = outcomes.filter(({ wrong }) => wrong.length > 0);
        const where = { store: kind, operation: operation.name };
        count({ what: "kill points", ...where, tried: outcomes.length, lost: lost.length });
        count({ what: "power losses after a kill", ...where, tried: losses.disks, lost: losses.wrong.length });
        expect(lost.slice(0, 3)).toEqual([]);
        expect(losses.wrong.slice(0, 3)).toEqual([]);
        // Checks that each fault met its call.
        expect(outcomes.filter(({ met }) => !met)).toEqual([]);
        expect(points.length).toBeGreaterThan(4);
      });
    }
  }
});

/** Returns every call that the operation makes on the store's files, with its thread and its number on that thread. */
async function rehearse(site: CrashSite): Promise<Point[]> {
  const calls = isEvery ? ["%file", "%desc"] : [...CHANGING, ...OPENING];
  const points = new Map<string, Point>();
  for (const thread of ["main", "other"] as const) {
    const copy = await site.copy();
    const { ofStore, answers } = await recorded(site.kind, storeIn(copy), site.operation.calls, { calls, thread });
    expect(answers.filter(({ code }) => code !== undefined)).toEqual([]);
    // The numbers are correct only for the recorded thread.
    for (const [call, name] of namesOf(ofStore, copy)) {
      if (call.thread === thread && (isEvery || changes(call))) points.set(name, { name, call });
    }
    await rm(copy, { recursive: true });
  }
  return [...points.values()];
}

async function killAt(site: CrashSite, point: Point, losses: PowerLosses) {
  const wrong: string[] = [];
  let met = false;
  for await (const kill of aimedFaults(site.kind, () => site.copy(), site.operation.calls, point, "signal=KILL")) {
    met = kill.met;
    const found = await site.examine(kill.folder);
    const wrongHere = site.verdict(found, kill.run);
    wrong.push(...wrongHere);
    // A kill at a call that changes nothing leaves the same disk as a kill at the next changing call.
    if (isFull && changes(point.call) && wrongHere.length === 0) await losePower(site, kill, found, losses);
    await rm(kill.folder, { recursive: true });
  }
  return { name: point.name, met, wrong };
}

/**
 * Checks that another process's save after a kill survives a power loss, even if it uses unsynced data of the killed
 * one.
 */
async function losePower(
  site: CrashSite,
  { folder, run }: Attempt,
  next: Examined,
  losses: PowerLosses,
): Promise<void> {
  const model = new DiskModel(folder, site.prepared);
  for (const _ of model.run(run.ofStore));
  let answered = 0;
  for (const call of model.run(next.ofStore)) {
    if (call.args[0] === "1") answered += 1;
    if (answered === next.answers.length) break;
  }
  const [before, after] = site.around(run.answers.length);
  const allowed = [withSaved(before, next.answers), withSaved(after, next.answers)] as const;
  const history = [...site.history, ...run.history, ...next.history];
  await losses.lose(model, [allowed], "after a kill and another process's save", losses.disks, history);
}

/** Returns the contents after the examination's saves and repair. */
function withSaved({ checkpoints, records, damaged }: Contents, answers: readonly Answer[]): Contents {
  const found = answers.at(-2)?.value as readonly StoredCheckpoint[] | undefined;
  const saved = found?.at(-1);
  if (saved === undefined) throw new Error("What was saved wasn't read.");
  return {
    checkpoints: new Map([...checkpoints, [keyOf(saved), saved]]),
    records,
    damaged: { ...damaged, are: "quarantined" },
  };
}
