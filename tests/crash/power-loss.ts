import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { recordHistory } from "waymark/testing";
import { nowMs } from "../chaos/ledger.js";
import type { Answer, Ended } from "./crash-process.js";
import { findViolations } from "./crash-site.js";
import type { Disk, DiskModel, Fate } from "./disk-model.js";
import { isTried } from "./extent.js";
import { openAdapter } from "./open-adapter.mjs";
import { type Contents, perform, plain, type StoreKind } from "./operations.js";
import { PLACE } from "./place.js";
import { quarantined } from "./quarantined.mjs";
import { storeIn } from "./store-calls.js";
import { examination, wrongs } from "./verdict.js";

/** The contents that the store may have: those before a call, or those after it. */
export type Allowed = readonly [before: Contents, after: Contents];

/** The number of mixtures of kept and lost changes tried at each moment, in addition to the extremes. */
const MIXTURES = 6;

/** Loses the power at chosen moments of a run, and reads the store on the remaining disk. */
export class PowerLosses {
  readonly #kind: StoreKind;
  readonly #seen = new Set<string>();
  #made = 0;
  /** The number of different disks that were read. */
  disks = 0;
  readonly wrong: string[] = [];

  constructor(kind: StoreKind) {
    this.#kind = kind;
  }

  /**
   * Loses the power now, in each way that the model supports.
   *
   * @param allowed - The allowed contents.
   * @param seed - The seed of the mixtures.
   * @param history - The calls until now. Everything that they acknowledged must be stored, except lazy records.
   */
  async lose(
    model: DiskModel,
    allowed: readonly Allowed[],
    moment: string,
    seed: number,
    history: readonly string[],
  ): Promise<void> {
    for (const fates of fatesOf(model, seed)) {
      this.#made += 1;
      if (!isTried(this.#made)) continue;
      const disk = model.afterLoss(fates);
      const key = `${digestOf(disk)} ${digestOfAll(allowed.flat())}`;
      if (this.#seen.has(key)) continue;
      this.#seen.add(key);
      this.disks += 1;
      const crash = { process: "power", number: 1, taskId: "", beginMs: nowMs(), action: { is: "crash" } };
      const found = await examined(this.#kind, disk);
      const verdicts = allowed.map(([before, after]) => wrongs(found.answers, before, after));
      const wrong = [
        ...(verdicts.every(({ length }) => length > 0) ? (verdicts.at(-1) ?? []) : []),
        ...findViolations([...history, JSON.stringify(crash), ...found.history]),
      ];
      if (wrong.length > 0) this.wrong.push(`power lost ${moment}, with ${countsOf(fates)}: ${wrong.join("; ")}`);
    }
  }
}

function fatesOf(model: DiskModel, seed: number): Fate[][] {
  const kinds = model.openKinds();
  const each = (data: Fate, names: Fate): Fate[] => kinds.map((kind) => (kind === "data" ? data : names));
  const mixture = fc.array(fc.constantFrom<Fate>("kept", "lost", "zeros", "torn"), {
    minLength: kinds.length,
    maxLength: kinds.length,
  });
  return [
    each("lost", "lost"),
    each("lost", "kept"),
    each("zeros", "kept"),
    each("torn", "kept"),
    each("kept", "lost"),
    each("kept", "kept"),
    ...fc.sample(mixture, { seed, numRuns: MIXTURES }),
  ];
}

function countsOf(fates: readonly Fate[]): string {
  const counts = new Map<Fate, number>();
  for (const fate of fates) counts.set(fate, (counts.get(fate) ?? 0) + 1);
  return [...counts].map(([fate, times]) => `${times} ${fate}`).join(", ") || "nothing open";
}

function digestOf(disk: Disk): string {
  const hash = createHash("sha256");
  for (const [path, content] of disk.entries())
    hash.update(`${path}\0${content?.length ?? "/"}\0`).update(content ?? "");
  return hash.digest("hex");
}

/** Returns a key for allowed contents: a disk may be right at one moment but wrong after another acknowledged save. */
function digestOfAll(contents: readonly Contents[]): string {
  const hash = createHash("sha256");
  for (const { checkpoints, ...rest } of contents) hash.update(JSON.stringify([...checkpoints, rest]));
  return hash.digest("hex");
}

async function examined(kind: StoreKind, disk: Disk): Promise<Pick<Ended, "answers" | "history">> {
  const folder = await mkdtemp(join(PLACE, "waymark-loss-"));
  disk.writeTo(folder);
  const found = await examinedHere(kind, folder);
  await rm(folder, { recursive: true });
  return found;
}

/** Reads the store in the folder in this process. Returns the answers and the history of the calls. */
export async function examinedHere(kind: StoreKind, folder: string): Promise<Pick<Ended, "answers" | "history">> {
  const history: string[] = [];
  const write = (line: string) => void history.push(line);
  const adapter = recordHistory(await openAdapter(kind, storeIn(folder)), { process: "reader", write });
  const answers: Answer[] = [];
  for (const call of examination("after-loss")) {
    answers.push(
      await (call[0] === "quarantined" ? quarantined(kind, storeIn(folder)) : perform(adapter, call)).then(
        (value) => ({ value: plain(value) }),
        (error: unknown) => ({ code: "failed", message: String(error) }),
      ),
    );
  }
  await adapter.close();
  return { answers, history };
}
