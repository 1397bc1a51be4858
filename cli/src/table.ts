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
/**
 * A table of any length in constant memory. It lays out rows page by page, so a later page may be wider than an earlier
 * one. A row is one line: on a terminal flexible columns shrink, and no cell has more than 1,000 columns.
 */
export class TablePrinter {
  readonly #output: Output;
  readonly #columns: readonly Column[];
  readonly #widths: number[];
  /** Of the cells alone, without the heads. */
  readonly #cellWidths: number[];
  #page: (readonly Cell[])[] = [];
  #isFirst = true;

  constructor(output: Output, columns: readonly Column[]) {
    this.#output = output;
    this.#columns = columns;
    this.#widths = columns.map(({ head }) => stringWidth(head));
    this.#cellWidths = columns.map(() => 1);
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
    if (this.#page.some((row) => row.some(({ text }) => !isAscii(text)))) await loadDisplayWidth();
    for (const row of this.#page) {
      row.forEach(({ text }, i) => {
        const width = Math.min(stringWidth(text), WIDEST);
        this.#widths[i] = Math.max(this.#widths[i] ?? 0, width);
        this.#cellWidths[i] = Math.max(this.#cellWidths[i] ?? 0, width);
      });
    }
    const widths = this.#fittingWidths();
    if (this.#isFirst) {
      const { bold } = this.#output.colors;
      await this.#printRow(
        this.#columns.map(({ head }) => ({ text: head, color: bold })),
        widths,
      );
    }
    for (const row of this.#page) await this.#printRow(row, widths);
    this.#page = [];
    this.#isFirst = false;
  }

  async #printRow(row: readonly Cell[], widths: readonly number[]): Promise<void> {
    const cells = row.map(({ text, color = same }, i) => {
      const width = widths[i] ?? 0;
      const shown = cut(text, width);
      const space = " ".repeat(width - stringWidth(shown));
      return this.#columns[i]?.align === "right" ? `${space}${color(shown)}` : `${color(shown)}${space}`;
    });
    await this.#output.line(cells.join(" ".repeat(GAP)).trimEnd());
  }

  /**
   * The widest flexible column shrinks first; where that isn't enough, the heads of numbers, then every column but the
   * numbers, and the first one, which names the row, last.
   */
  #fittingWidths(): number[] {
    const widths = [...this.#widths];
    let excess = widths.reduce((sum, width) => sum + width + GAP, -GAP) - this.#output.columns;
    const shrink = (isMeant: (column: Column, at: number) => boolean, narrowest: (at: number) => number) => {
      const canShrink = (at: number) => {
        const column = this.#columns[at];
        return column !== undefined && isMeant(column, at) && (widths[at] ?? 0) > narrowest(at);
      };
      while (excess > 0) {
        const most = Math.max(...widths.map((width, at) => (canShrink(at) ? width : 0)));
        const widest = widths.findIndex((width, at) => width === most && canShrink(at));
        if (widest === -1) return;
        widths[widest] = most - 1;
        excess -= 1;
      }
    };
    shrink(
      ({ flexible }) => flexible === true,
      () => NARROWEST,
    );
    shrink(
      ({ align }) => align === "right",
      (at) => this.#cellWidths[at] ?? 1,
    );
    shrink(
      ({ align }, at) => align === undefined && at > 0,
      () => 1,
    );
    shrink(
      ({ align }) => align === undefined,
      () => 1,
    );
    return widths;
  }
}

const CUT = "…";

/** The beginning of a text that is wider than so many columns. */
function cut(text: string, width: number): string {
  if (stringWidth(text) <= width) return text;
  if (isAscii(text)) return text.slice(0, width - 1) + CUT;
  let shown = "";
  let left = width - 1;
  segmenter ??= new Intl.Segmenter();
  for (const { segment } of segmenter.segment(text)) {
    left -= stringWidth(segment);
    if (left < 0) break;
    shown += segment;
  }
  return shown + CUT;
}

/** Both are made for the first text that needs them: that takes longer than to print a table. */
let segmenter: Intl.Segmenter | undefined;
let displayWidth = (text: string): number => text.length;

async function loadDisplayWidth(): Promise<void> {
  displayWidth = (await import("string-width")).default;
}

/** Most text is ASCII: each character takes one column. */
function stringWidth(text: string): number {
  return isAscii(text) || text === CUT ? text.length : displayWidth(text);
}

function isAscii(text: string): boolean {
  return /^[ -~]*$/.test(text);
}

function same(text: string): string {
  return text;
}

function asPrintable(cell: Cell | string): Cell {
  return typeof cell === "string" ? { text: printable(cell) } : { ...cell, text: printable(cell.text) };
}
