// @ts-check
// Makes docs/pictures/recording.svg, the recording in the README: `npm run record`. Each command really runs, in a
// terminal of `script` (util-linux). Only the typing and the pauses are made up. Needs a build.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { render } from "svg-term";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";

const COLUMNS = 92;
const ROWS = 18;
const COMMANDS = [
  "timeout --signal=KILL 2 node build.mjs",
  "waymark resume",
  "node build.mjs",
  "waymark list build --limit 4",
  "waymark diff build-42 @3 @latest",
  "waymark prune build-42 --keep-last 2 --dry-run",
];

/** A build that saves after each step, and resumes after the last saved one. */
const BUILD = (/** @type {string} */ sdk) => `
import { CheckpointManager } from "${sdk}/src/index.js";
import { openStorage } from "${sdk}/adapters/index.js";
import { setTimeout as work } from "node:timers/promises";

const manager = new CheckpointManager({ storage: openStorage("sqlite:checkpoints.db") });
const steps = ["fetch", "compile", "test", "bundle", "sign", "publish"];
const latest = await manager.latest("build");
if (latest) console.log("resuming after", latest.label);
for (let step = latest?.state.step ?? 0; step < steps.length; step++) {
  await work(500);
  await manager.save("build", { step: step + 1 }, { label: steps[step] });
  console.log("saved after", steps[step]);
}
await manager.complete("build");
await manager.close();
`;
/** `start` is above 0, because svg-term puts an empty frame at 0. */
const SECONDS = { start: 1, perKey: 0.04, beforeEnter: 0.3, toRead: 2.5 };
const PROMPT = "\x1b[2J\x1b[H\x1b[32m$\x1b[0m ";
/** The dark palette of docs/pictures, as a terminal's colors. @type {import("svg-term").SvgTermTheme} */
const THEME = {
  0: [21, 27, 35],
  1: [248, 81, 73],
  2: [63, 185, 80],
  3: [210, 153, 34],
  4: [68, 147, 248],
  5: [171, 125, 248],
  6: [57, 197, 207],
  7: [240, 246, 252],
  8: [145, 152, 161],
  9: [248, 81, 73],
  10: [63, 185, 80],
  11: [210, 153, 34],
  12: [68, 147, 248],
  13: [171, 125, 248],
  14: [57, 197, 207],
  15: [240, 246, 252],
  background: [21, 27, 35],
  bold: [240, 246, 252],
  cursor: [145, 152, 161],
  text: [240, 246, 252],
  fontSize: 1.67,
  lineHeight: 1.3,
  fontFamily: "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
};
const AT_REST = "@media (prefers-reduced-motion: reduce){g{animation:none!important}}";

const root = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "waymark-record-"));
try {
  await fill();
  const svg = render(record(), { window: true, from: SECONDS.start * 1000, theme: THEME });
  writeFileSync(join(root, "docs", "pictures", "recording.svg"), svg.replace("</style>", `${AT_REST}</style>`));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** A project in the middle of its work. */
async function fill() {
  const storage = openStorage("sqlite:checkpoints.db", { relativeTo: folder });
  let nowMs = Date.now() - 3 * 3_600_000;
  const manager = new CheckpointManager({ storage, clock: () => nowMs });
  const gates = ["lint", "types", "unit tests", "integration"];
  for (let passed = 0; passed < gates.length; passed++) {
    nowMs += 7 * 60_000;
    const stage = `validation-gate-${passed + 1}`;
    await manager.save(
      "build-42",
      { commit: "9c1f2ab", gates: gates.slice(0, passed + 1), retries: passed % 2 },
      {
        stage,
        label: `After the ${gates[passed]}`,
      },
    );
  }
  await manager.fail("build-42", new Error("integration: connection refused on port 5432"));
  nowMs += 60 * 60_000;
  await manager.save("migration-7", { table: "orders", row: 1_204_000 }, { stage: "copy", label: "Copying orders" });
  await manager.save("nightly", { done: true }, { stage: "report", status: "completed" });

  await manager.close();

  writeFileSync(join(folder, "build.mjs"), BUILD(pathToFileURL(join(root, "dist")).href));
}

/**
 * The session as an asciicast of version 2. The first command's output is there from the first frame on, because a
 * picture that doesn't move shows only that frame.
 */
function record() {
  const lines = [JSON.stringify({ version: 2, width: COLUMNS, height: ROWS })];
  let at = SECONDS.start;
  const show = (/** @type {string} */ text) => lines.push(JSON.stringify([at, "o", text]));
  const [first = "", ...others] = COMMANDS;
  const output = run(first).map(({ text }) => text);
  show(`${PROMPT}${first}\r\n${output.join("")}`);
  at += SECONDS.toRead;
  for (const command of others) {
    show(PROMPT);
    for (const key of command) {
      at += SECONDS.perKey;
      show(key);
    }
    at += SECONDS.beforeEnter;
    show("\r\n");
    for (const { delay, text } of run(command)) {
      at += delay;
      show(text);
    }
    at += SECONDS.toRead;
  }
  show("");
  return lines.join("\n");
}

/**
 * A command's output to a terminal, piece by piece.
 *
 * @param {string} command
 */
function run(command) {
  const waymark = `"${process.execPath}" "${join(root, "cli", "bin", "waymark.js")}"`;
  const line = `stty cols ${COLUMNS} rows ${ROWS}; ${command.replace(/^waymark/, waymark)}`;
  const { stdout, stderr, error } = spawnSync("script", ["-qefc", line, "/dev/null"], {
    cwd: folder,
    // bash would say "Killed" in a long line with the process's id.
    env: { ...process.env, SHELL: "/bin/sh", TERM: "xterm", WAYMARK_STORAGE: "sqlite:checkpoints.db" },
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  if (error) throw new Error(`The recording needs \`script\` of util-linux: ${error.message}`);
  if (stderr !== "") throw new Error(`${command}: ${stderr}`);
  return piecesOf(stdout);
}

/**
 * A list that changes in place is written frame by frame. Each frame begins by erasing the one before.
 *
 * @param {string} output
 */
function piecesOf(output) {
  const [erase, up, start] = ["\x1b[2K", "\x1b[1A", "\x1b[G"].map((code) => code.replace(/[[\]]/g, "\\$&"));
  const frames = output.split(new RegExp(`(?<!${up})(?=(?:${erase}${up})+${erase}${start})`));
  return frames.map((text, index) => ({ text, delay: index === 0 ? 0 : 0.1 }));
}
