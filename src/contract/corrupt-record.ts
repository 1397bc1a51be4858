/** Stands for a stored record that can't be read. The record itself is left untouched. */
export interface CorruptRecord {
  readonly corrupt: true;
  /** The record's place: a path, or a table and row. */
  readonly location: string;
  /** The damage, in words. */
  readonly reason: string;
  readonly taskId?: string;
  readonly id?: string;
  readonly sequence?: number;
  readonly cause?: unknown;
}

/** Whether an adapter returned a CorruptRecord instead of a record. */
export function isCorrupt(record: object): record is CorruptRecord {
  return "corrupt" in record && record.corrupt === true;
}
