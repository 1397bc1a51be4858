import type { PlannedCheckpoint, RetentionPlan } from "waymark";
import type { Output } from "../output.js";
import { type Cell, TablePrinter } from "../table.js";
import { bytesText, counted } from "../words.js";

/** On a terminal, a long plan is its first and its last rows. */
const SHOWN_ROWS = 10;

type Row = readonly (Cell | string)[];

/** Plans as a table, a row for each checkpoint. Only one page of it takes memory. */
export class PlanTable {
  readonly #output: Output;
  readonly #table: ShortTable;

  /** @param allRows - Shows the whole of a long plan on a terminal. Elsewhere it is always whole. */
  constructor(output: Output, allRows: boolean) {
    this.#output = output;
    const columns = [
      { head: "PLAN" },
      { head: "TASK", flexible: true },
      { head: "SEQ", align: "right" },
      { head: "SAVED", flexible: true },
      { head: "AT", flexible: true },
      { head: "SIZE", align: "right" },
      { head: "WHY", flexible: true },
    ] as const;
    this.#table = new ShortTable(output, columns, allRows);
  }

  async add({ taskId, keep, remove }: RetentionPlan): Promise<void> {
    const { green, red } = this.#output.colors;
    for (const planned of keep) await this.#table.add(...rowOf({ text: "keep", color: green }, taskId, planned));
    for (const planned of remove) await this.#table.add(...rowOf({ text: "remove", color: red }, taskId, planned));
  }

  async end(): Promise<void> {
    await this.#table.end();
  }
}

/** A table that shows only its first and its last rows on a terminal. */
export class ShortTable {
  readonly #output: Output;
  readonly #table: TablePrinter;
  readonly #isShort: boolean;
  #rows = 0;
  /** The last rows so far, if the table is short: one more than are shown, since a line says that others are hidden. */
  readonly #last: Row[] = [];

  /** @param allRows - Shows the whole table on a terminal. Elsewhere it is always whole. */
  constructor(output: Output, columns: ConstructorParameters<typeof TablePrinter>[1], allRows: boolean) {
    this.#output = output;
    this.#isShort = output.isTerminal && !allRows;
    this.#table = new TablePrinter(output, columns);
  }

  async end(): Promise<void> {
    const hidden = this.#isShort ? this.#rows - SHOWN_ROWS - this.#last.length : 0;
    if (hidden > 0) {
      this.#last.shift();
      await this.#table.end();
      await this.#output.line(this.#output.colors.dim(`… ${counted(hidden + 1, "more row")}; --all-rows shows them`));
    }
    for (const row of this.#last) await this.#table.add(...row);
    await this.#table.end();
  }

  async add(...row: Row): Promise<void> {
    this.#rows += 1;
    if (!this.#isShort || this.#rows <= SHOWN_ROWS) await this.#table.add(...row);
    else if (this.#last.push(row) > SHOWN_ROWS + 1) this.#last.shift();
  }
}

function rowOf(verb: Cell, taskId: string, { checkpoint, reasons }: PlannedCheckpoint): Row {
  const { sequence, createdAt, label, stage, sizeBytes } = checkpoint;
  const saved = createdAt.slice(0, 16).replace("T", " ");
  return [verb, taskId, String(sequence), saved, label ?? stage ?? "", bytesText(sizeBytes), reasons.join(", ")];
}
