import { createReadStream } from "node:fs";
import type { PlannedCheckpoint, RetentionPlan } from "waymark";
import { CheckedLinesWriter, readCheckedLines } from "../records/checked-lines.js";
import { LineFile } from "../records/line-file.js";

const FORMAT = "waymark-prune-plan";

/** A line of the file: the beginning of a plan, or a checkpoint that it keeps or removes. */
interface PlanLine {
  readonly plan?: Omit<RetentionPlan, "keep" | "remove">;
  readonly keep?: PlannedCheckpoint;
  readonly remove?: PlannedCheckpoint;
}

/** Writes a file of plans for {@link readPlanFile}: a line for each task, then a line for each of its checkpoints. */
export class PlanFile {
  readonly #file: LineFile;
  readonly #lines: CheckedLinesWriter;

  private constructor(file: LineFile) {
    this.#file = file;
    this.#lines = new CheckedLinesWriter((text) => file.line(text));
  }

  /** @throws {CommandError} The file can't be written, or it exists and `replace` is false. */
  static async create(path: string, replace: boolean): Promise<PlanFile> {
    const plans = new PlanFile(await LineFile.create(path, "Nothing was removed.", replace));
    await plans.#lines.header(FORMAT, {});
    return plans;
  }

  async add({ keep, remove, ...plan }: RetentionPlan): Promise<void> {
    await this.#lines.record({ plan } satisfies PlanLine);
    for (const planned of keep) await this.#lines.record({ keep: planned } satisfies PlanLine);
    for (const planned of remove) await this.#lines.record({ remove: planned } satisfies PlanLine);
  }

  /** Completes the file. Without this call, {@link readPlanFile} refuses it. */
  async end(): Promise<void> {
    await this.#lines.trailer({});
    await this.#file.end();
  }

  async close(): Promise<void> {
    await this.#file.close();
  }
}

/**
 * Yields the plans of a file, one at a time. Only the end of the file shows that it is unchanged, so read it once
 * before anything is removed. The user agreed to the plans as they were written, and a changed plan could remove
 * checkpoints that every policy keeps.
 *
 * @param outcome - Returns how much was done so far, for errors.
 * @throws {CommandError} The file doesn't exist, or was changed.
 */
export async function* readPlanFile(
  path: string,
  outcome: () => string = () => "Nothing was removed.",
): AsyncGenerator<RetentionPlan, void, void> {
  // The checksum shows that the line is unchanged.
  const parse = (value: unknown) => value as PlanLine;
  const lines = readCheckedLines(createReadStream(path), { format: FORMAT, parse, from: path, outcome });
  let current: GrowingPlan | undefined;
  for await (const { item } of lines) {
    if (item.plan !== undefined) {
      if (current !== undefined) yield current;
      current = { ...item.plan, keep: [], remove: [] };
    }
    if (item.keep) current?.keep.push(item.keep);
    if (item.remove) current?.remove.push(item.remove);
  }
  if (current !== undefined) yield current;
}

/** A plan whose lines are still being read. */
interface GrowingPlan extends RetentionPlan {
  readonly keep: PlannedCheckpoint[];
  readonly remove: PlannedCheckpoint[];
}
