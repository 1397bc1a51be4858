// @ts-check

import { time } from "../report.mjs";
import { TURNS } from "./histories.mjs";
import { size } from "./table.mjs";

const PANEL = { width: 300, height: 260, top: 56, gap: 290, left: 74 };
const WIDTH = 2 * (PANEL.width + PANEL.gap) + 40;
const HEIGHT = PANEL.top + PANEL.height + 44;
const LABEL_HEIGHT = 15;
/** The colors differ in lightness too, and can be told apart on white and on black. */
const COLORS = ["#0f9d76", "#2f81f7", "#8957e5", "#d1242f", "#bf8700", "#bc4c9b", "#6e7781", "#9a6700"];

/** @typedef {import("./histories.mjs").Point} Point */

/**
 * Bytes and save times against turns, side by side. The colors follow the reader's scheme, light or dark.
 *
 * @param {ReadonlyMap<string, readonly Point[]>} histories
 */
export function plotOf(histories) {
  const panels = [
    panel(histories, { title: "On the disk", left: PANEL.left, measure: (point) => point.bytes, format: size }),
    panel(histories, {
      title: "One save",
      left: PANEL.left + PANEL.width + PANEL.gap,
      measure: (point) => point.saveMs,
      format: time,
    }),
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12" role="img">
<title>What a history of ${TURNS} turns takes on the disk, and how long a save takes, in Waymark and its peers</title>
<style>
.paper { fill: #ffffff } text { fill: #1f2328 } .grid { stroke: #d1d9e0 } .line { fill: none; stroke-width: 1.5 } .ours { stroke-width: 3 } .bold { font-weight: 600 }
@media (prefers-color-scheme: dark) { .paper { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #3d444d } }
</style>
<rect class="paper" width="${WIDTH}" height="${HEIGHT}"/>
<text class="bold" x="14" y="22" font-size="14">An agent's state grows by 500 bytes at each turn, and is saved at each turn</text>
${panels.join("\n")}
</svg>
`;
}

/**
 * @param {ReadonlyMap<string, readonly Point[]>} histories
 * @param {{ title: string, left: number, measure: (point: Point) => number, format: (value: number) => string }} options
 */
function panel(histories, { title, left, measure, format }) {
  const highest = Math.max(...[...histories.values()].flat().map(measure));
  const step = niceStep(highest / 4);
  const top = Math.ceil(highest / step) * step;
  const bottom = PANEL.top + PANEL.height;
  const x = (/** @type {number} */ turn) => round(left + (turn / TURNS) * PANEL.width);
  const y = (/** @type {number} */ value) => round(bottom - (value / top) * PANEL.height);

  const grid = Array.from({ length: Math.round(top / step) + 1 }, (_, index) => index * step).map(
    (value) =>
      `<path class="grid" d="M${left} ${y(value)}h${PANEL.width}"/><text x="${left - 6}" y="${y(value) + 4}" text-anchor="end">${value === 0 ? "0" : format(value)}</text>`,
  );
  const ticks = [0, TURNS / 2, TURNS].map(
    (turn) => `<text x="${x(turn)}" y="${bottom + 18}" text-anchor="middle">${turn}</text>`,
  );
  const lines = [...histories].map(([name, points], index) => {
    const path = points.map((point) => `${x(point.turn)} ${y(measure(point))}`).join("L");
    return `<path class="line${isOurs(name) ? " ours" : ""}" stroke="${COLORS[index % COLORS.length]}" d="M${path}"/>`;
  });
  const ends = [...histories].map(([name, points], index) => {
    const value = measure(points.at(-1) ?? { turn: 0, bytes: 0, saveMs: 0 });
    return { name, value, color: COLORS[index % COLORS.length], height: y(value) };
  });
  const labels = apart(ends).map(
    ({ name, value, color, height }) =>
      `<path stroke="${color}" stroke-width="${isOurs(name) ? 3 : 1.5}" d="M${left + PANEL.width + 5} ${height}h9"/><text${isOurs(name) ? ' class="bold"' : ""} x="${left + PANEL.width + 18}" y="${height + 4}">${name}, ${format(value)}</text>`,
  );
  const heading = `<text class="bold" x="${left}" y="${PANEL.top - 12}">${title}</text>`;
  const axis = `<text x="${left + PANEL.width / 2}" y="${bottom + 36}" text-anchor="middle">turns</text>`;
  return [heading, ...grid, ...ticks, axis, ...lines, ...labels].join("\n");
}

/**
 * Labels in the order of their values, moved apart so that each can be read.
 *
 * @template {{ height: number }} Label
 * @param {readonly Label[]} labels
 */
function apart(labels) {
  const sorted = labels.toSorted((a, b) => b.height - a.height);
  let lowest = PANEL.top + PANEL.height;
  return sorted.map((label) => {
    const height = Math.min(label.height, lowest);
    lowest = height - LABEL_HEIGHT;
    return { ...label, height };
  });
}

/** @param {string} name */
function isOurs(name) {
  return name.startsWith("Waymark");
}

/** @param {number} least */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) ?? least;
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 10) / 10;
}
