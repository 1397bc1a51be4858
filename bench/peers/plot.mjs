// @ts-check

import { time } from "../report.mjs";
import { TURNS } from "./histories.mjs";
import { size } from "./table.mjs";

const WIDTH = 720;
const HEIGHT = 620;
const PANEL = { left: 78, width: 340, height: 210 };
const LABEL_HEIGHT = 18;
/** Colors of the palette that all pictures in docs/pictures share. Waymark's lines are thick. */
const OUR_COLORS = ["violet", "green", "blue"];
const THEIR_COLORS = ["amber", "red", "orange", "pink", "soft"];
const STYLE = `<style>
svg {
  --paper: #ffffff; --panel: #f6f8fa; --rule: #d1d9e0; --ink: #1f2328; --soft: #59636e;
  --green: #1a7f37; --blue: #0969da; --violet: #8250df; --red: #cf222e; --orange: #bc4c00; --amber: #9a6700; --pink: #bf3989;
}
@media (prefers-color-scheme: dark) {
  svg {
    --paper: #0d1117; --panel: #151b23; --rule: #3d444d; --ink: #f0f6fc; --soft: #9198a1;
    --green: #3fb950; --blue: #4493f8; --violet: #ab7df8; --red: #f85149; --orange: #db6d28; --amber: #d29922; --pink: #db61a2;
  }
}
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: var(--ink); }
.title { font-size: 15px; font-weight: 600; } .bold { font-weight: 600; } .soft { fill: var(--soft); }
.mid { text-anchor: middle; } .end { text-anchor: end; }
.paper { fill: var(--paper); } .rule { fill: none; stroke: var(--rule); } .line { fill: none; stroke-width: 1.5; } .ours { stroke-width: 3; }
</style>`;

/** @typedef {import("./histories.mjs").Point} Point */
/** @typedef {{ readonly title: string, readonly measure: (point: Point) => number, readonly format: (value: number) => string }} Panel */

/** @type {readonly Panel[]} */
const PANELS = [
  { title: "On the disk", measure: (point) => point.bytes, format: size },
  { title: "One save", measure: (point) => point.saveMs, format: time },
];

/**
 * Plots bytes and save times against turns. The colors follow the reader's color scheme, light or dark.
 *
 * @param {ReadonlyMap<string, readonly Point[]>} histories
 */
export function plotOf(histories) {
  const turns = TURNS.toLocaleString("en");
  const ends = PANELS.map(({ title, measure, format }) => {
    const values = [...histories].map(([name, points]) => `${name} ${format(measure(lastOf(points)))}`);
    return `${title}: ${values.join(", ")}.`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img">
<title>What a history of ${turns} turns takes on the disk, and how long a save takes, in Waymark and its peers</title>
<desc>After ${turns} turns. ${ends.join(" ")}</desc>
${STYLE}
<rect class="paper" width="${WIDTH}" height="${HEIGHT}" rx="6"/>
<text class="title" x="16" y="28">An agent's state grows by 500 bytes at each turn, and is saved at each turn</text>
${PANELS.map((panel, index) => panelOf(histories, panel, 76 + index * 286)).join("\n")}
</svg>
`;
}

/**
 * @param {ReadonlyMap<string, readonly Point[]>} histories
 * @param {Panel} panel
 * @param {number} ceiling - The y coordinate of the panel's highest value.
 */
function panelOf(histories, { title, measure, format }, ceiling) {
  const { left, width, height } = PANEL;
  const highest = Math.max(...[...histories.values()].flat().map(measure));
  const step = niceStep(highest / 4);
  const top = Math.ceil(highest / step) * step;
  const [right, floor] = [left + width, ceiling + height];
  const x = (/** @type {number} */ turn) => round(left + (turn / TURNS) * width);
  const y = (/** @type {number} */ value) => round(floor - (value / top) * height);

  const grid = Array.from({ length: Math.round(top / step) + 1 }, (_, index) => index * step).map(
    (value) =>
      `<path class="rule" d="M${left} ${y(value)}h${width}"/><text class="end" x="${left - 8}" y="${y(value) + 4}">${value === 0 ? "0" : format(value).replace(/\.0+ /, " ")}</text>`,
  );
  const ticks = [0, TURNS / 2, TURNS].map(
    (turn) =>
      `<text class="mid" x="${x(turn)}" y="${floor + 20}">${turn.toLocaleString("en")}${turn === TURNS ? " turns" : ""}</text>`,
  );
  const colors = colorsOf([...histories.keys()]);
  const lines = [...histories].map(([name, points]) => {
    const path = points.map((point) => `${x(point.turn)} ${y(measure(point))}`).join("L");
    return `<path class="line${isOurs(name) ? " ours" : ""}" stroke="${colors.get(name)}" d="M${path}"/>`;
  });
  const ends = [...histories].map(([name, points]) => {
    const value = measure(lastOf(points));
    return { name, value, wanted: y(value) };
  });
  const labels = apart(ends, ceiling, floor).map(
    ({ name, value, wanted, height: at }) =>
      `<path class="line" stroke="${colors.get(name)}" d="M${right + 3} ${wanted}L${right + 20} ${at}h8"/><text${isOurs(name) ? ' class="bold"' : ""} x="${right + 34}" y="${round(at + 4)}">${name}, ${format(value)}</text>`,
  );
  const heading = `<text class="bold" x="${left}" y="${ceiling - 16}">${title}</text>`;
  return [heading, ...grid, ...ticks, ...lines, ...labels].join("\n");
}

/**
 * Places labels from the top down, each as close to its wanted height as the others allow. Labels that would overlap
 * form a group around the mean of their wanted heights.
 *
 * @template {{ wanted: number }} Label
 * @param {readonly Label[]} labels
 * @param {number} ceiling
 * @param {number} floor
 */
function apart(labels, ceiling, floor) {
  const topOf = (/** @type {readonly Label[]} */ group) => {
    const middle = group.reduce((sum, { wanted }) => sum + wanted, 0) / group.length;
    const height = (group.length - 1) * LABEL_HEIGHT;
    return Math.max(ceiling, Math.min(middle - height / 2, floor - height));
  };
  /** @type {Label[][]} */
  const groups = [];
  for (const label of labels.toSorted((a, b) => a.wanted - b.wanted)) {
    let group = [label];
    for (let above = groups.at(-1); above !== undefined; above = groups.at(-1)) {
      if (topOf(above) + above.length * LABEL_HEIGHT <= topOf(group)) break;
      group = [...above, ...group];
      groups.pop();
    }
    groups.push(group);
  }
  return groups.flatMap((group) =>
    group.map((label, index) => ({ ...label, height: round(topOf(group) + index * LABEL_HEIGHT) })),
  );
}

/** @param {readonly string[]} names */
function colorsOf(names) {
  const ours = names.filter(isOurs);
  const theirs = names.filter((name) => !isOurs(name));
  const colored = (/** @type {readonly string[]} */ group, /** @type {readonly string[]} */ colors) =>
    group.map((name, index) => /** @type {const} */ ([name, `var(--${colors[index % colors.length]})`]));
  return new Map([...colored(ours, OUR_COLORS), ...colored(theirs, THEIR_COLORS)]);
}

/** @param {readonly Point[]} points */
function lastOf(points) {
  return points.at(-1) ?? { turn: 0, bytes: 0, saveMs: 0 };
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
