// @ts-check
import { time } from "../report.mjs";

/**
 * Makes a Markdown table with aligned columns, so that it is also readable in a terminal. A missing value is a "–".
 *
 * @param {readonly string[]} columns
 * @param {readonly { what: string, cells: Readonly<Record<string, string>> }[]} rows
 */
export function tableOf(columns, rows) {
  const lines = [
    ["", ...columns],
    ...rows.map(({ what, cells }) => [what, ...columns.map((column) => cells[column] ?? "–")]),
  ];
  const widths = ["", ...columns].map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  const [head = "", ...body] = lines.map(
    (line) =>
      `| ${line.map((cell, index) => (index === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[index] ?? 0))).join(" | ")} |`,
  );
  const rule = `| ${widths.map((width, index) => (index === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`)).join(" | ")} |`;
  return [head, rule, ...body].join("\n");
}

/** @param {Readonly<Record<string, number>>} milliseconds */
export function times(milliseconds) {
  return Object.fromEntries(Object.entries(milliseconds).map(([name, ms]) => [name, time(ms)]));
}

/** @param {number} bytes */
export function size(bytes) {
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(0)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
