import { createReadStream } from "node:fs";
import type { PlannedCheckpoint, RetentionPlan } from "waymark";
import { CommandError, ExitCode } from "../exit-code.js";
import { CheckedLinesWriter, DamagedLineError, readCheckedLines } from "../records/checked-lines.js";
import { LineFile } from "../records/line-file.js";

const FORMAT = "waymark-prune-plan";

/** A line of the file: the beginning of a plan, or a checkpoint that it keeps or removes. */
interface PlanLine {
  readonly plan?: Pick<RetentionPlan, "taskId" | "policy" | "plannedAt">;
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
  static async create(path: string, replace: boolean, format = FORMAT): Promise<PlanFile> {
    const file = await LineFile.create(path, { replace, failure: (...failed) => notWritten(path, ...failed) });
    const plans = new PlanFile(file);
    await plans.#lines.header(format, {});
    return plans;
  }

  async add({ taskId, policy, plannedAt, keep, remove }: RetentionPlan): Promise<void> {
    await this.line({ plan: { taskId, policy, plannedAt } } satisfies PlanLine);
    for (const planned of keep) await this.line({ keep: planned } satisfies PlanLine);
    for (const planned of remove) await this.line({ remove: planned } satisfies PlanLine);
  }

  async line(line: object): Promise<void> {
    await this.#lines.record(line);
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
 * @param standing - Says how much was done so far, for errors.
 * @throws {CommandError} The file doesn't exist, or was changed.
 */
export async function* readPlanFile(
  path: string,
  standing: () => string = () => "Nothing was removed.",
): AsyncGenerator<RetentionPlan, void, void> {
  let current: GrowingPlan | undefined;
  let at = 0;
  try {
    for await (const { value, line } of readCheckedLines(createReadStream(path), FORMAT)) {
      at = line;
      // The checksum shows that the line is unchanged.
      const { plan, keep, remove } = value as PlanLine;
      if (plan !== undefined) {
        if (current !== undefined) yield current;
        current = { ...plan, keep: [], remove: [], keepBytes: 0, removeBytes: 0 };
      } else if (current !== undefined && keep !== undefined) {
        current.keep.push(keep);
        current.keepBytes += keep.checkpoint.sizeBytes;
      } else if (current !== undefined && remove !== undefined) {
        current.remove.push(remove);
        current.removeBytes += remove.checkpoint.sizeBytes;
      } else throw new Error("its plan is missing");
    }
  } catch (cause) {
    throw unreadablePlan(path, at, "waymark prune --plan-out", standing(), cause);
  }
  if (current !== undefined) yield current;
}

/**
 * @param at - The last line that could be read.
 * @param command - The command that wrote the file.
 * @param standing - Says how much was done so far.
 */
export function unreadablePlan(
  path: string,
  at: number,
  command: string,
  standing: string,
  cause: unknown,
): CommandError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  if (cause instanceof Error && "syscall" in cause) {
    return new CommandError(ExitCode.notFound, `The plan ${path} can't be read: ${reason}. ${standing}`, { cause });
  }
  const line = cause instanceof DamagedLineError ? cause.line : at;
  return new CommandError(
    ExitCode.damaged,
    `${path} is not as "${command}" wrote it: line ${line}, ${reason}. ${standing} Make the plan again.`,
    { cause },
  );
}

/** A plan whose lines are still being read. */
interface GrowingPlan extends RetentionPlan {
  readonly keep: PlannedCheckpoint[];
  readonly remove: PlannedCheckpoint[];
  keepBytes: number;
  removeBytes: number;
}

function notWritten(path: string, code: string, isMade: boolean, cause: unknown): CommandError {
  if (code === "EEXIST") {
    return new CommandError(
      ExitCode.conflict,
      `${path} is there already, and was left as it is. Name another file, or replace it with --force. Nothing was removed.`,
      { cause },
    );
  }
  const rest = isMade ? " It is incomplete: remove it." : "";
  return new CommandError(
    ExitCode.failed,
    `The plan could not be written to ${path}: ${code}. Nothing was removed.${rest}`,
    { cause },
  );
}
