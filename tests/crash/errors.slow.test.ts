import { rm } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { type Attempt, aimedFaults, type Point } from "./aimed-fault.js";
import { count } from "./counts.js";
import { noStrace, recorded } from "./crash-process.js";
import { CrashSite, findViolations, forAll } from "./crash-site.js";
import { DiskModel } from "./disk-model.js";
import { isTried } from "./extent.js";
import { isLazy, OPERATIONS, STORES } from "./operations.js";
import { examinedHere, PowerLosses } from "./power-loss.js";
import { CHANGING, namesOf, OPENING, storeIn } from "./store-calls.js";
import type { SystemCall } from "./system-calls.js";
import { wrongs } from "./verdict.js";

const ERRORS = ["EIO", "ENOSPC", "EINTR"] as const;

/** The calls that fail for lack of space or because of the disk. */
const FAILING = /^(p?write(64)?|f(data)?sync|ftruncate|rename(at2?)?|link(at)?|mkdir(at)?|unlink(at)?|rmdir)$/;

/** The errors for calls that make files. EINTR isn't one: after an interruption, the call begins again and succeeds. */
const ERRORS_OF_MAKING = ["EIO", "ENOSPC"] as const;

interface Fault extends Point {
  readonly error: (typeof ERRORS)[number];
}

describe.skipIf(noStrace !== undefined)(`a system call that fails${noStrace ? ` (skipped: ${noStrace})` : ""}`, () => {
  for (const kind of STORES) {
    // Each operation is tried twice, and a fault hits one of the tries.
    const operations = OPERATIONS.filter(({ only, addsTwice }) => !addsTwice && only?.includes(kind) !== false);
    for (const operation of operations) {
      it(`in ${kind}'s ${operation.name} harms nothing that was saved, and is never reported as success`, async () => {
        await using site = await CrashSite.make(kind, operation);
        const faults = await rehearse(site);
        const losses = new PowerLosses(kind);
        const tried = faults.filter((_, index) => isTried(index));
        const outcomes = await forAll(tried, (fault) => inject(site, fault, losses));

        const where = { store: kind, operation: operation.name };
        const lost = outcomes.filter(({ wrong }) => wrong.length > 0);
        count({ what: "faults injected", ...where, tried: outcomes.length, lost: lost.length });
        count({ what: "power losses after a failed sync", ...where, tried: losses.disks, lost: losses.wrong.length });
        expect(lost.slice(0, 3)).toEqual([]);
        expect(losses.wrong.slice(0, 3)).toEqual([]);
        expect(outcomes.filter(({ met }) => !met)).toEqual([]);
        expect(faults.length).toBeGreaterThan(8);
      });
    }
  }
});

async function rehearse(site: CrashSite): Promise<Fault[]> {
  const faults: Fault[] = [];
  for (const thread of ["main", "other"] as const) {
    const copy = await site.copy();
    const calls = [...CHANGING, ...OPENING];
    const { ofStore } = await recorded(site.kind, storeIn(copy), site.operation.calls, { calls, thread });
    for (const [call, name] of namesOf(ofStore, copy)) {
      if (call.thread !== thread || call.path === undefined) continue;
      // SQLite makes room for its shared memory with eight equal one-byte writes, so only the first one fails here.
      if (call.path.endsWith("-shm") && !name.endsWith("(1)")) continue;
      faults.push(...errorsOf(call).map((error) => ({ name, call, error })));
    }
  }
  return faults;
}

function errorsOf({ name, args }: SystemCall): readonly Fault["error"][] {
  if (FAILING.test(name)) return ERRORS;
  return name.startsWith("open") && args.some((arg) => arg.includes("O_CREAT")) ? ERRORS_OF_MAKING : [];
}

async function inject(site: CrashSite, fault: Fault, losses: PowerLosses) {
  // The operation is tried with the fault, then again in the same process.
  const calls = [...site.operation.calls, ...site.operation.calls];
  const what = `error=${fault.error}` as const;
  const outcome = { name: `${fault.error} at ${fault.name}`, met: false, wrong: [] as string[] };
  for await (const attempt of aimedFaults(site.kind, () => site.copy(), calls, fault, what)) {
    if (attempt.met) Object.assign(outcome, { met: true, wrong: await judge(site, fault, attempt, losses) });
    await rm(attempt.folder, { recursive: true });
  }
  return outcome;
}

async function judge(site: CrashSite, { name, call, error }: Fault, { folder, run }: Attempt, losses: PowerLosses) {
  const { calls } = site.operation;
  // The second try makes calls that the first one doesn't, such as the sync of an event that is already stored.
  const metAt = run.ofStore.findIndex((made) => made.name === call.name && made.error === error);
  const answeredAt = run.ofStore.findIndex(({ args }) => args[0] === "1");
  const isAfterFirst = answeredAt !== -1 && answeredAt < metAt;
  const [first, second] = isAfterFirst ? run.answers.slice(1) : run.answers;
  const wrong: string[] = [];
  if (run.answers.length !== 2 * calls.length) wrong.push(`the process ended early: ${run.stderr}`);
  if (first?.code !== undefined) {
    const { code, message = "", retryable } = first;
    if (code !== "STORAGE_FAILED") wrong.push(`it is ${code}: ${message}`);
    if (!/earlier checkpoints are intact/i.test(message)) wrong.push(`it doesn't say what is intact: ${message}`);
    // SQLite reports this error only for writes.
    const isTold = !site.kind.startsWith("sqlite") || /^(pwrite64|mkdir|link)$/.test(call.name);
    if (error === "ENOSPC" && isTold && (!retryable || !/disk is full|no space left/i.test(message))) {
      wrong.push(`it doesn't say that the disk is full: ${message}`);
    }
  }
  if (second?.code !== undefined) wrong.push(`the same again failed with ${second.code}: ${second.message}`);
  const found = await examinedHere(site.kind, folder);
  const verdicts = site.afterTwoTries().map((contents) => wrongs(found.answers, contents, contents));
  if (verdicts.every((verdict) => verdict.length > 0)) wrong.push(...verdicts.flat());
  wrong.push(...findViolations([...site.history, ...run.history, ...found.history]));

  if (/sync/.test(call.name) && wrong.length === 0) {
    // Data in doubt after a failed sync may be lost, but nothing acknowledged since may depend on it.
    const model = new DiskModel(folder, site.prepared);
    let answered = 0;
    for (const next of model.run(run.ofStore)) {
      if (next.args[0] !== "1") continue;
      // If a failed repair has left nothing to do, the next repair promises nothing: the damage may come back, and is
      // then reported again.
      const isPromised = site.operation.name === "repair" ? first?.code === undefined : !isLazy(calls[0]);
      const promised = isPromised ? run.answers : [];
      const acknowledged = promised.slice(0, ++answered).some(({ code }) => code === undefined);
      const allowed = site.afterTwoTries().map((after) => [acknowledged ? after : site.around(0)[0], after] as const);
      const history = [...site.history, ...run.history.slice(0, 2 * answered)];
      await losses.lose(model, allowed, `after answer ${answered} to ${error} at ${name}`, answered, history);
    }
  }
  return wrong;
}
