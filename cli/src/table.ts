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
  readonly isOmittedIfEmpty?: true;
  /** Text to copy, such as an id, in the first column. It is never cut: a long text gets a separate line. */
  readonly isWhole?: true;
  /** If the terminal is too narrow for the table, the cell moves to separate lines below the row. */
  readonly isBelow?: true;
  /** The column is left out if the table is too wide even with the cells below the rows. */
  readonly isOptional?: true;
}

/** A cell: text and its colour. The table makes the text safe for the terminal. */
export interface Cell {
  readonly text: string;
  readonly color?: (text: string) => string;
  /** A command to copy: the terminal wraps it, because a line feed would end it. */
  readonly isCommand?: true;
}

/** How many rows fit a screen. */
export const SCREEN_ROWS = 20;

const PAGE_ROWS = 200;
const GAP = 2;
/** With fewer columns, cut cells would show too little, so a table that doesn't fit is printed in blocks. */
const NARROW = 60;
const NARROWEST = 8;
const WIDEST = 1000;
/** In a pipe, a cell that is wider than this doesn't widen its column. */
const MAX_PADDED = 64;
const INDENT = "  ";

/** How the rows are printed, from wide to narrow terminals. */
const LAYOUTS = ["wide", "below", "narrow", "blocks"] as const;
type Layout = (typeof LAYOUTS)[number];

/**
 * Prints a table of any length in constant memory. It lays out rows page by page, so a later page may be wider than an
 * earlier one. In a pipe a row is one line, and a cell has at most 1,000 columns.
 *
 * If a terminal is too narrow, cells go below their row, optional columns are left out, and flexible ones shrink. If
 * that isn't enough or the terminal is very narrow, a row becomes a block: each cell is printed in full on a separate
 * line.
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
  #layout: Layout = "wide";
  #layoutOfHeads: Layout | undefined;

  /**
   * @param most - How many rows to print on a terminal; one more line counts the hidden ones. Other outputs get all
   *   rows.
   */
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
    if (this.#widths.length === 0) this.#chooseColumns();
    for (const row of this.#page) {
      row.forEach(({ text }, i) => {
        const width = Math.min(stringWidth(text), WIDEST);
        if (width > this.#maxPadded(i)) return;
        this.#widths[i] = Math.max(this.#widths[i] ?? 0, width);
        this.#cellWidths[i] = Math.max(this.#cellWidths[i] ?? 0, width);
      });
    }
    // The widths only grow, so a layout that was too wide for a page is too wide for all later pages.
    for (const layout of LAYOUTS.slice(LAYOUTS.indexOf(this.#layout))) {
      this.#layout = layout;
      const widths = layout === "blocks" ? undefined : this.#fittingWidths(layout);
      if (widths === undefined && layout !== "blocks") continue;
      await (widths === undefined ? this.#printBlocks() : this.#printRows(layout, widths));
      break;
    }
    this.#page = [];
  }

  #chooseColumns(): void {
    const isShown = this.#columns.map(
      ({ isOmittedIfEmpty }, i) => isOmittedIfEmpty !== true || this.#page.some((row) => row[i]?.text !== ""),
    );
    this.#columns = this.#columns.filter((_column, i) => isShown[i]);
    this.#page = this.#page.map((row) => row.filter((_cell, i) => isShown[i]));
    this.#widths = this.#columns.map(({ head }) => stringWidth(head));
    this.#cellWidths = this.#columns.map(() => 1);
  }

  /** Returns the width above which a cell no longer widens its column. */
  #maxPadded(at: number): number {
    const { isTerminal, columns } = this.#output;
    if (!isTerminal) return MAX_PADDED;
    return this.#columns[at]?.isWhole ? Math.floor(columns / 2) : WIDEST;
  }

  async #printRows(layout: Layout, widths: readonly number[]): Promise<void> {
    const { isTerminal, colors } = this.#output;
    const heads = this.#columns.map(({ head }) => ({ text: head, color: colors.bold }));
    const hasHeads = this.#layoutOfHeads !== layout;
    this.#layoutOfHeads = layout;
    for (const row of hasHeads ? [heads, ...this.#page] : this.#page) {
      const cells: string[] = [];
      for (const [i, { text, color = same }] of row.entries()) {
        const { align, isWhole, ...column } = this.#columns[i] ?? {};
        if (!isInRow(column, layout)) continue;
        const width = widths[i] ?? 0;
        let shown = cut(text, isTerminal && !isWhole ? width : WIDEST);
        if (isTerminal && stringWidth(shown) > width) {
          await this.#output.line(color(shown));
          shown = "";
        }
        const space = " ".repeat(Math.max(0, width - stringWidth(shown)));
        cells.push(align === "right" ? `${space}${color(shown)}` : `${color(shown)}${space}`);
      }
      await this.#output.line(cells.join(" ".repeat(GAP)).trimEnd());
      if (row !== heads && layout !== "wide") await this.#printBelow(row);
    }
  }

  async #printBelow(row: readonly Cell[]): Promise<void> {
    for (const [i, { text, color = same }] of row.entries()) {
      if (this.#columns[i]?.isBelow !== true || text === "") continue;
      const lines = wrapWords(cut(text, WIDEST), this.#output.columns - INDENT.length);
      for (const line of lines) await this.#output.line(`${INDENT}${color(line)}`);
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

  /**
   * Returns the widths of the columns that the layout prints in a row. In the narrow layout, the widest flexible column
   * shrinks first, then the heads of numbers. Returns `undefined` if that isn't enough.
   */
  #fittingWidths(layout: Layout): readonly number[] | undefined {
    const widths = this.#widths.map((width, at) => (isInRow(this.#columns[at], layout) ? width : 0));
    const { columns } = this.#output;
    let excess = widths.reduce((sum, width) => sum + (width > 0 ? width + GAP : 0), -GAP) - columns;
    if (columns < NARROW && layout !== "wide") return undefined;
    if (layout !== "narrow") return excess > 0 ? undefined : widths;
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

function isInRow({ isBelow, isOptional }: Pick<Column<never>, "isBelow" | "isOptional"> = {}, layout: Layout): boolean {
  return layout === "wide" || (!isBelow && (layout === "below" || !isOptional));
}

/** Prints rows as a table. */
export async function printTable<Row>(
  output: Output,
  rows: Iterable<Row> | AsyncIterable<Row>,
  columns: readonly Column<Row>[],
): Promise<void> {
  await printItems(output, rows, new TablePrinter(output, columns));
}

/** Prints one item as a block: each of its parts begins a line. On a terminal, long parts are wrapped between words. */
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
    const room = this.#output.columns - width - GAP;
    for (const { head, cell } of this.#lines) {
      const { text, color = same, isCommand } = cell;
      const shown = cut(text, WIDEST);
      for (const [i, line] of (isCommand ? [shown] : wrapWords(shown, room)).entries()) {
        const start = this.#output.colors.dim((i === 0 ? head : "").padEnd(width));
        await this.#output.line(`${start}${" ".repeat(GAP)}${color(line)}`);
      }
    }
  }
}

/**
 * Breaks a text into lines of at most `width` columns. A longer word gets a separate line, which the terminal wraps.
 */
function wrapWords(text: string, width: number): readonly string[] {
  if (stringWidth(text) <= width) return [text];
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || stringWidth(`${last} ${word}`) > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
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

/**
 * The segmenter and the width function are loaded for the first text that needs them, because loading them takes longer
 * than printing a table.
 */
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
