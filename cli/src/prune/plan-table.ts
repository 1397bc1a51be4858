import type { PlannedCheckpoint, RetentionPlan } from "waymark";
import type { ItemPrinter } from "../items.js";
import type { Output } from "../output.js";
import { type Column, TablePrinter } from "../table.js";
import { bytesText, counted } from "../words.js";

/** On a terminal, a long plan shows only this many of its first and of its last rows. */
const SHOWN_ROWS = 10;

interface PlanRow extends PlannedCheckpoint {
  readonly verb: "keep" | "remove";
  readonly taskId: string;
}

/** Prints plans as a table with a row for each checkpoint. It keeps only one page in memory. */
export class PlanTable implements ItemPrinter<RetentionPlan> {
  readonly #table: ShortTable<PlanRow>;

  /** @param allRows - Shows all rows of a long plan on a terminal. Other outputs always get all rows. */
  constructor(output: Output, allRows: boolean) {
    const { green, red } = output.colors;
    const columns: readonly Column<PlanRow>[] = [
      { head: "PLAN", cell: ({ verb }) => ({ text: verb, color: verb === "keep" ? green : red }) },
      { head: "TASK", flexible: true, cell: ({ taskId }) => taskId },
      { head: "SEQ", align: "right", cell: ({ checkpoint }) => String(checkpoint.sequence) },
      { head: "SAVED", flexible: true, cell: ({ checkpoint }) => checkpoint.createdAt.slice(0, 16).replace("T", " ") },
      { head: "AT", flexible: true, cell: ({ checkpoint: { label, stage } }) => label ?? stage ?? "" },
      {
        head: "SIZE",
        align: "right",
        cell: ({ checkpoint, recordBytes = 0 }) => bytesText(checkpoint.sizeBytes + recordBytes),
      },
      { head: "WHY", flexible: true, cell: ({ reasons }) => reasons.join(", ") },
    ];
    this.#table = new ShortTable(output, columns, allRows);
  }

  async add({ taskId, keep, remove }: RetentionPlan): Promise<void> {
    for (const planned of keep) await this.#table.add({ verb: "keep", taskId, ...planned });
    for (const planned of remove) await this.#table.add({ verb: "remove", taskId, ...planned });
  }

  end(): Promise<void> {
    return this.#table.end();
  }
}

/** A table that shows only its first and last rows on a terminal. */
export class ShortTable<Row> implements ItemPrinter<Row> {
  readonly #output: Output;
  readonly #table: TablePrinter<Row>;
  readonly #isShort: boolean;
  #rows = 0;
  /**
   * The last rows so far, if the table is short. It holds one row more than is shown: if rows are hidden, the line that
   * says so takes that row's place.
   */
  readonly #last: Row[] = [];

  /** @param allRows - Shows all rows on a terminal. Other outputs always get all rows. */
  constructor(output: Output, columns: readonly Column<Row>[], allRows: boolean) {
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
    for (const row of this.#last) await this.#table.add(row);
    await this.#table.end();
  }

  async add(row: Row): Promise<void> {
    this.#rows += 1;
    if (!this.#isShort || this.#rows <= SHOWN_ROWS) await this.#table.add(row);
    else if (this.#last.push(row) > SHOWN_ROWS + 1) this.#last.shift();
  }
}
