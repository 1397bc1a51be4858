// @ts-check
// Makes docs/pictures/recording.svg, the recording in the README: `npm run record`. The commands run for real in a
// terminal of `script` (util-linux), and Chromium shows the page at the end. Only the typing and the pauses are
// simulated. Needs a build.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { render } from "svg-term";

const COLUMNS = 92;
const ROWS = 18;
const COMMANDS = [
  "cat agent.mjs",
  "timeout --signal=KILL 2 node agent.mjs",
  "node agent.mjs",
  "waymark list agent-7 --timeline",
  "waymark ui",
];

const AGENT = `import { openManager } from "waymark/config";
import { database, mail, model } from "./tools.mjs";

const manager = await openManager();
const sent = await manager.run("agent-7", async (run) => {
  const plan = await run.step("plan", () => model("Plan a report on sales"));
  const numbers = await run.step("query", () => database(plan));
  const report = await run.step("write", () => model(\`Report \${numbers}\`));
  return run.step("send", ({ key }) => mail(report, key));
});
console.log(sent);
await manager.close();
`;

/** Stand-ins that print each call and take as long as quick real calls. */
const TOOLS = `import { setTimeout as work } from "node:timers/promises";

async function call(name, ms, result) {
  console.log(name);
  await work(ms);
  return result;
}
export const model = (prompt) => call(\`model: \${prompt}\`, 700, "of 12,400 orders");
export const database = () => call("database: select sum(total) from orders", 400, "of 12,400 orders");
export const mail = () => call("mail: to team@example.com", 300, "The report is sent.");
`;

/** The times in the recording. `start` is above 0, because svg-term puts an empty frame at 0. */
const SECONDS = { start: 1, perKey: 0.02, beforeEnter: 0.2, toRead: 1.4, page: 4 };
/** The size of the page: as high as the terminal's window at the picture's width. */
const PAGE = { width: 1280, height: 600 };
const PROMPT = "\x1b[2J\x1b[H\x1b[32m$\x1b[0m ";
/** The dark palette of docs/pictures as terminal colors. @type {import("svg-term").SvgTermTheme} */
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
const AT_REST = "@media (prefers-reduced-motion: reduce){g,.page{animation:none!important}}";

const root = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "waymark-record-"));
try {
  fill();
  const { cast, pageFrom, end } = record();
  const svg = render(cast, { window: true, from: SECONDS.start * 1000, theme: THEME });
  const page = await pagePicture();
  writeFileSync(join(root, "docs", "pictures", "recording.svg"), withPage(svg, page, pageFrom, end));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Makes a project that has Waymark installed. */
function fill() {
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules", "waymark"));
  symlinkSync(join(root, "node_modules", "better-sqlite3"), join(folder, "node_modules", "better-sqlite3"));
  writeFileSync(join(folder, "waymark.config.mjs"), 'export default { storage: "sqlite:checkpoints.db" };\n');
  writeFileSync(join(folder, "agent.mjs"), AGENT);
  writeFileSync(join(folder, "tools.mjs"), TOOLS);
}

/** Returns the task's page in Chromium as a PNG in base64. */
async function pagePicture() {
  const waymark = join(root, "cli", "bin", "waymark.js");
  const server = spawn(process.execPath, [waymark, "ui", "--no-open"], {
    cwd: folder,
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    let printed = "";
    for await (const text of server.stdout.setEncoding("utf8")) {
      printed += text;
      const [url] = /http:\S+/.exec(printed) ?? [];
      if (url !== undefined) return await photograph(url);
    }
    throw new Error(`waymark ui printed no URL: ${printed}`);
  } finally {
    server.kill();
  }
}

/** @param {string} url */
async function photograph(url) {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  try {
    const page = await browser.newPage({ viewport: PAGE, colorScheme: "dark" });
    await page.goto(url);
    await page.getByText("agent-7").first().click();
    await page.getByText("query").first().waitFor();
    return (await page.screenshot()).toString("base64");
  } finally {
    await browser.close();
  }
}

/**
 * Adds the page, which covers the terminal at the end of the recording, before it starts over.
 *
 * @param {string} svg
 * @param {string} page
 * @param {number} from
 * @param {number} end
 */
function withPage(svg, page, from, end) {
  const percent = (((from - SECONDS.start) / (end - SECONDS.start)) * 100).toFixed(2);
  const css =
    `.page{animation:page ${end - SECONDS.start}s steps(1,end) infinite;opacity:0}` +
    `@keyframes page{0%{opacity:0}${percent}%{opacity:1}100%{opacity:1}}`;
  const image = `<image class="page" href="data:image/png;base64,${page}" width="100%" height="100%" preserveAspectRatio="xMidYMin slice"/>`;
  return svg.replace("</style>", `${css}${AT_REST}</style>`).replace(/<\/svg>$/, `${image}</svg>`);
}

/**
 * Records the session as an asciicast of version 2. The first frame already has the first command's output, because a
 * still picture shows only that frame.
 */
function record() {
  const lines = [JSON.stringify({ version: 2, width: COLUMNS, height: ROWS })];
  let at = SECONDS.start;
  const show = (/** @type {string} */ text) => lines.push(JSON.stringify([at, "o", text]));
  const [first = "", ...others] = COMMANDS;
  show(`${PROMPT}${first}\r\n${run(first)}`);
  at += 2 * SECONDS.toRead;
  for (const command of others) {
    show(PROMPT);
    for (const key of command) {
      at += SECONDS.perKey;
      show(key);
    }
    at += SECONDS.beforeEnter;
    show("\r\n");
    // The page covers the output of `waymark ui`, so it isn't run here.
    if (command === "waymark ui") break;
    show(run(command));
    at += SECONDS.toRead;
  }
  const pageFrom = at;
  at += SECONDS.page;
  show("");
  return { cast: lines.join("\n"), pageFrom, end: at };
}

/**
 * Returns a command's output in a terminal.
 *
 * @param {string} command
 */
function run(command) {
  const waymark = `"${process.execPath}" "${join(root, "cli", "bin", "waymark.js")}"`;
  const line = `stty cols ${COLUMNS} rows ${ROWS}; ${command.replace(/^waymark/, waymark)}`;
  const { stdout, stderr, error } = spawnSync("script", ["-qefc", line, "/dev/null"], {
    cwd: folder,
    // bash would print "Killed" in a long line with the process's id; sh doesn't.
    env: { ...process.env, SHELL: "/bin/sh", TERM: "xterm" },
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  if (error) throw new Error(`The recording needs \`script\` of util-linux: ${error.message}`);
  if (stderr !== "") throw new Error(`${command}: ${stderr}`);
  return stdout;
}
