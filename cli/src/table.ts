import Table from "cli-table3";
import displayWidth from "string-width";
import type { Output } from "./output.js";
import { printable } from "./printable.js";

export interface Column {
  readonly head: string;
  /** Numbers are aligned right. */
  readonly align?: "right";
  /** Shrinks if the terminal is too narrow. */
  readonly flexible?: true;
}

/** A cell: text and its colour. The table makes the text safe for the terminal. */
export interface Cell {
  readonly text: string;
  readonly color?: (text: string) => string;
}

const PAGE_ROWS = 200;
const GAP = 2;
const NARROWEST = 8;
const WIDEST = 1000;
const NO_BORDERS = Object.fromEntries(
  ["top", "top-mid", "top-left", "top-right", "bottom", "bottom-mid", "bottom-left", "bottom-right"]
    .concat(["left", "left-mid", "mid", "mid-mid", "right", "right-mid", "middle"])
    .map((part) => [part, ""]),
);

/**
 * A table of any length in constant memory. It lays out rows page by page, so a later page may be wider than an earlier
 * one. A row is one line: on a terminal flexible columns shrink, and no cell has more than 1,000 columns.
 */
export class TablePrinter {
  readonly #output: Output;
  readonly #columns: readonly Column[];
  readonly #widths: number[];
  #page: (readonly Cell[])[] = [];
  #isFirst = true;

  constructor(output: Output, columns: readonly Column[]) {
    this.#output = output;
    this.#columns = columns;
    this.#widths = columns.map(({ head }) => stringWidth(head));
  }

  async add(...cells: readonly (Cell | string)[]): Promise<void> {
    this.#page.push(cells.map(asPrintable));
    if (this.#page.length === PAGE_ROWS) await this.#printPage();
  }

  /** Prints the remaining rows. A table without rows prints nothing. */
  async end(): Promise<void> {
    if (this.#page.length > 0) await this.#printPage();
  }

  async #printPage(): Promise<void> {
    for (const row of this.#page) {
      row.forEach(({ text }, i) => {
        this.#widths[i] = Math.max(this.#widths[i] ?? 0, Math.min(stringWidth(text), WIDEST));
      });
    }
    const table = new Table({
      ...(this.#isFirst ? { head: this.#columns.map(({ head }) => this.#output.colors.bold(head)) } : undefined),
      colWidths: this.#fittingWidths().map((width) => width + GAP),
      colAligns: this.#columns.map(({ align }) => align ?? "left"),
      chars: NO_BORDERS,
      style: { "padding-left": 0, "padding-right": GAP, head: [], border: [], compact: true },
    });
    for (const row of this.#page) table.push(row.map(({ text, color }) => (color === undefined ? text : color(text))));
    for (const line of table.toString().split("\n")) await this.#output.line(line.trimEnd());
    this.#page = [];
    this.#isFirst = false;
  }

  #fittingWidths(): number[] {
    const widths = [...this.#widths];
    let excess = widths.reduce((sum, width) => sum + width + GAP, -GAP) - this.#output.columns;
    while (excess > 0) {
      const widest = this.#columns.reduce<number | undefined>((best, { flexible }, i) => {
        const width = widths[i] ?? 0;
        return flexible && width > NARROWEST && width > (best === undefined ? 0 : (widths[best] ?? 0)) ? i : best;
      }, undefined);
      if (widest === undefined) break;
      widths[widest] = (widths[widest] ?? 0) - 1;
      excess -= 1;
    }
    return widths;
  }
}

/** Most text is ASCII: each character takes one column. */
function stringWidth(text: string): number {
  return /^[ -~]*$/.test(text) ? text.length : displayWidth(text);
}

function asPrintable(cell: Cell | string): Cell {
  return typeof cell === "string" ? { text: printable(cell) } : { ...cell, text: printable(cell.text) };
}
