import { open, realpath, rename, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { describeCause } from "waymark/kit";
import { RunnerError, readDocument } from "../runner-error.js";
import type { Mark, PlanItem } from "./plan.js";
import { parsePlan, type ReadPlanOptions } from "./read-plan.js";

/** Returns the name of the draft that replaces a plan's file by a rename. */
export function draftName(path: string): string {
  return `.${basename(path)}.waymark-draft`;
}

/**
 * Marks an item as done or open in its plan's file. Reads the file again, so that recent edits are kept, and replaces
 * it atomically. All other bytes stay the same. Does nothing if the mark is already right.
 *
 * @throws {RunnerError} `PLAN_CHANGED`: the file no longer has the item, or can't be written; it is left as it was.
 */
export async function writeMark(
  plan: ReadPlanOptions & { readonly path: string },
  { id, title }: Pick<PlanItem, "id" | "title">,
  isDone: boolean,
): Promise<void> {
  for (;;) {
    const before = await readDocument("plan", plan.path);
    const item = findItem(parsePlan(before, plan.path, plan).items, { id, title });
    if (item === undefined) {
      throw new RunnerError(
        "PLAN_CHANGED",
        `Item ${id} (${title}) is no longer in ${plan.path}, so it can't be marked as ${isDone ? "done" : "open"}. The file is ` +
          "left as it is. Put the item back, or mark it yourself, and run the plan again.",
      );
    }
    const after = withMarks(before, item.marks, isDone);
    if (after.equals(before)) return;
    try {
      if (await replaceFile(plan.path, before, after)) return;
    } catch (cause) {
      throw new RunnerError(
        "PLAN_CHANGED",
        `${plan.path} can't be written: ${describeCause(cause)}. It is left as it was.`,
        { cause },
      );
    }
  }
}

/**
 * Returns the item with this title, or else the item with this id. If several have the title, the id decides.
 */
export function findItem(
  items: readonly PlanItem[],
  { id, title }: Pick<PlanItem, "id" | "title">,
): PlanItem | undefined {
  const titled = items.filter((item) => item.title === title);
  return (
    titled.find((item) => item.id === id) ?? (titled.length === 1 ? titled[0] : items.find((item) => item.id === id))
  );
}

function withMarks(bytes: Buffer, marks: readonly Mark[], isDone: boolean): Buffer {
  const parts: Buffer[] = [];
  let from = 0;
  const changed = marks.filter((mark) => mark.isDone !== isDone).toSorted((a, b) => a.start - b.start);
  for (const { start, end, done, open: undone } of changed) {
    parts.push(bytes.subarray(from, start), Buffer.from(isDone ? done : undone));
    from = end;
  }
  return Buffer.concat([...parts, bytes.subarray(from)]);
}

/** Returns false if the file was edited since it was read. */
async function replaceFile(path: string, before: Buffer, after: Buffer): Promise<boolean> {
  const target = await realpath(path);
  const draft = join(dirname(target), draftName(target));
  const { mode } = await stat(target);
  const file = await open(draft, "w", mode);
  try {
    await file.writeFile(after);
    await file.chmod(mode);
    await file.sync();
  } finally {
    await file.close();
  }
  if (!(await readDocument("plan", target)).equals(before)) return false;
  await rename(draft, target);
  return true;
}
