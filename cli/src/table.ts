import { type ItemPrinter, printItems } from "./items.js";
import type { Output } from "./output.js";
import { printable } from "./printable.js";

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => Cell | string;
  /** Numbers are aligned to the right. */
  readonly align?: "right";
  /** The column shrinks if the terminal is too narrow. */
  readonly flexible?: true;
  /** The column is left out if it is empty in the first rows. */
  readonly optional?: true;
}

/** A cell: text and its colour. The table makes the text safe for the terminal. */
export interface Cell {
  readonly text: string;
  readonly color?: (text: string) => string;
}

/** How many rows fit a screen. */
export const SCREEN_ROWS = 20;

const PAGE_ROWS = 200;
const GAP = 2;
/** On a terminal with fewer columns, cut cells would say too little. */
const NARROW = 60;
const NARROWEST = 8;
const WIDEST = 1000;
/**
 * Prints a table of any length in constant memory. It lays out rows page by page, so a later page may be wider than an
 * earlier one. A row is one line, and a cell has at most 1,000 columns.
 *
 * On a terminal, flexible columns shrink. If that isn't enough or the terminal is narrow, a row becomes a block: each
 * cell has its own line, in full, which the terminal wraps.
 */
export class TablePrinter<Row> implements ItemPrinter<Row> {
  readonly #output: Output;
  #columns: readonly Column<Row>[];
  readonly #most: number;
  #widths: number[] = [];
  /** The widths of the cells, without the heads. */
  #cellWidths: number[] = [];
  #page: (readonly Cell[])[] = [];
  #added = 0;
  #isFirst = true;
  #isOfBlocks = false;

  /** @param most - How many rows a terminal shows; one more line counts the others. Other outputs get all rows. */
  constructor(output: Output, columns: readonly Column<Row>[], most = Number.POSITIVE_INFINITY) {
    this.#output = output;
    this.#columns = columns;
    this.#most = output.isTerminal ? most : Number.POSITIVE_INFINITY;
  }

  async add(row: Row): Promise<void> {
    this.#added += 1;
    if (this.#added > this.#most) return;
    this.#page.push(this.#columns.map(({ cell }) => asPrintable(cell(row))));
    if (this.#page.length === PAGE_ROWS) await this.#printPage();
  }

  /** Prints the remaining rows. A table without rows prints nothing. */
  async end(): Promise<void> {
    if (this.#page.length > 0) await this.#printPage();
    const hidden = this.#added - this.#most;
    if (hidden > 0)
      await this.#output.line(this.#output.colors.dim(`… ${hidden} more; --limit ${this.#added} shows all`));
  }

  async #printPage(): Promise<void> {
    if (this.#page.some((row) => row.some(({ text }) => !isAscii(text)))) await loadDisplayWidth();
    if (this.#isFirst) this.#chooseColumns();
    for (const row of this.#page) {
      row.forEach(({ text }, i) => {
        const width = Math.min(stringWidth(text), WIDEST);
        this.#widths[i] = Math.max(this.#widths[i] ?? 0, width);
        this.#cellWidths[i] = Math.max(this.#cellWidths[i] ?? 0, width);
      });
    }
    const widths = this.#fittingWidths();
    this.#isOfBlocks ||= widths === undefined;
    if (widths === undefined || this.#isOfBlocks) await this.#printBlocks();
    else await this.#printRows(widths);
    this.#page = [];
    this.#isFirst = false;
  }

  #chooseColumns(): void {
    const isShown = this.#columns.map(
      ({ optional }, i) => optional !== true || this.#page.some((row) => row[i]?.text !== ""),
    );
    this.#columns = this.#columns.filter((_column, i) => isShown[i]);
    this.#page = this.#page.map((row) => row.filter((_cell, i) => isShown[i]));
    this.#widths = this.#columns.map(({ head }) => stringWidth(head));
    this.#cellWidths = this.#columns.map(() => 1);
  }

  async #printRows(widths: readonly number[]): Promise<void> {
    const { bold } = this.#output.colors;
    const heads = this.#columns.map(({ head }) => ({ text: head, color: bold }));
    for (const row of this.#isFirst ? [heads, ...this.#page] : this.#page) {
      const cells = row.map(({ text, color = same }, i) => {
        const width = widths[i] ?? 0;
        const shown = cut(text, width);
        const space = " ".repeat(width - stringWidth(shown));
        return this.#columns[i]?.align === "right" ? `${space}${color(shown)}` : `${color(shown)}${space}`;
      });
      await this.#output.line(cells.join(" ".repeat(GAP)).trimEnd());
    }
  }

  async #printBlocks(): Promise<void> {
    for (const row of this.#page) {
      const block = new BlockPrinter(this.#output);
      for (const [i, { head }] of this.#columns.entries()) block.add(head, row[i] ?? "");
      await block.end();
      await this.#output.line();
    }
  }

  /** Shrinks the widest flexible column first, then the heads of numbers. Returns `undefined` if that isn't enough. */
  #fittingWidths(): readonly number[] | undefined {
    const widths = [...this.#widths];
    const { columns } = this.#output;
    let excess = widths.reduce((sum, width) => sum + width + GAP, -GAP) - columns;
    if (columns < NARROW) return excess > 0 ? undefined : widths;
    const shrink = (isMeant: (column: Column<Row>) => boolean, narrowest: (at: number) => number) => {
      const canShrink = (at: number) => {
        const column = this.#columns[at];
        return column !== undefined && isMeant(column) && (widths[at] ?? 0) > narrowest(at);
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
    return excess > 0 ? undefined : widths;
  }
}

/** Prints rows as a table. */
export async function printTable<Row>(
  output: Output,
  rows: Iterable<Row> | AsyncIterable<Row>,
  columns: readonly Column<Row>[],
): Promise<void> {
  await printItems(output, rows, new TablePrinter(output, columns));
}

/** Prints one thing: each of its parts has its own line, in full, which the terminal wraps. */
export class BlockPrinter {
  readonly #output: Output;
  readonly #lines: { readonly head: string; readonly cell: Cell }[] = [];

  constructor(output: Output) {
    this.#output = output;
  }

  /** Adds a part. An empty cell is left out. */
  add(head: string, cell: Cell | string): void {
    const shown = asPrintable(cell);
    if (shown.text !== "") this.#lines.push({ head, cell: shown });
  }

  async end(): Promise<void> {
    const width = Math.max(...this.#lines.map(({ head }) => head.length));
    if (this.#lines.some(({ cell }) => !isAscii(cell.text))) await loadDisplayWidth();
    for (const { head, cell } of this.#lines) {
      const { text, color = same } = cell;
      await this.#output.line(
        `${this.#output.colors.dim(head.padEnd(width))}${" ".repeat(GAP)}${color(cut(text, WIDEST))}`,
      );
    }
  }
}

const CUT = "…";

/** Cuts a text to at most `width` columns. */
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

/** Both are created for the first text that needs them, because creating them takes longer than printing a table. */
let segmenter: Intl.Segmenter | undefined;
let displayWidth = (text: string): number => text.length;

async function loadDisplayWidth(): Promise<void> {
  displayWidth = (await import("string-width")).default;
}

/** Returns how many columns a text takes. Most text is ASCII: one column per character. */
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
