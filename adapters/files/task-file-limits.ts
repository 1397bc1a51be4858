/** Damage to a disk makes some lines unreadable; a file with so many of them is of another kind. */
export const MAX_DAMAGED_LINES = 10_000;
/** Each takes some two kilobytes until it is written in our form. */
export const MAX_FOREIGN_RECORDS = 100_000;

/** A file of which so much isn't ours that it is damaged as a whole. It never leaves the reading of that file. */
export class TaskFileOverfullError extends Error {
  override readonly name = "TaskFileOverfullError";
}

/**
 * How much of one file is read that no program of ours writes: a line of ours has some 400 bytes, so that the file's size
 * bounds them; others may be a byte long, and take a thousand times as much in memory.
 */
export class TaskFileLimits {
  #damaged = 0;
  #foreign = 0;

  /** @throws {TaskFileOverfullError} There are more than are told one by one. */
  countDamaged(): void {
    this.#damaged += 1;
    if (this.#damaged > MAX_DAMAGED_LINES) {
      throw new TaskFileOverfullError(`more than ${MAX_DAMAGED_LINES} of its lines or records can't be read`);
    }
  }

  /** @throws {TaskFileOverfullError} There are more than are adopted. */
  countForeign(): void {
    this.#foreign += 1;
    if (this.#foreign > MAX_FOREIGN_RECORDS) {
      throw new TaskFileOverfullError(`more than ${MAX_FOREIGN_RECORDS} of its records are another program's`);
    }
  }
}
