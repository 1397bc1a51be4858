// Runs the built program many times, as a person would, and checks everything that a person would see: its output, its
// error messages, and its exit code. Prints the id of this process, then a line for each chapter.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";

const PROGRAM = "dist/src/main.js";
const LOGS = "checks/logs";
const PROJECTS = ["on-call", "review", "waymark", "writing"];
const MONTHS = Array.from({ length: 12 }, (_, index) => String(index + 1).padStart(2, "0"));
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);

let runs = 0;
rmSync(LOGS, { recursive: true, force: true });
mkdirSync(LOGS);

const year = MONTHS.map(madeUpMonth);
const chapters = {
  "how it is called": () => {
    assert.match(hours(["--help"]).stdout, /report <log>/);
    assert.match(hours(["--version"]).stdout, /^hours \d+\.\d+\.\d+\n$/);
    for (const args of [
      [],
      ["report"],
      ["sum", "logs/november.txt"],
      ["list", "logs/november.txt", "--by", "day"],
      ["report", "logs/november.txt", "--by"],
      ["report", "logs/november.txt", "--by", "note"],
      ["report", "logs/november.txt", "--for", "day"],
    ])
      refused(args, 2, /^hours: .+\n\nUsage: /);
  },

  "logs that are no good": () => {
    refused(["report", "logs/december.txt"], 1, /ENOENT/);
    refused(["report", "logs"], 1, /EISDIR/);
    for (const [line, complaint] of [
      ["16.11.2026 09:00-12:15 waymark", /:2: expected/],
      ["2026-11-16 09:00 12:15 waymark", /:2: expected/],
      ["2026-11-16 09:00-12:15", /:2: expected/],
      ["2026-11-16 09:00-24:15 waymark", /:2: "24:15" is no time/],
      ["2026-11-16 9:00-12:15 waymark", /:2: "9:00" is no time/],
    ])
      refused(["report", logOf("bad", ["# The second line is the bad one", line])], 1, complaint);
  },

  "a shift from each hour of the day": () => {
    for (const hour of HOURS) {
      const log = logOf("shift", [`2026-11-16 ${time(hour, 30)}-${time(hour + 8, 15)} on-call`]);
      assert.equal(hours(["report", log]).stdout, "on-call   7:45\ntotal     7:45\n");
    }
  },

  "each month of a year": () => {
    for (const month of year) assert.equal(total(["report", month.log]), month.minutes);
  },

  "the year in one log": () => {
    const log = logOf("year", year.flatMap((month) => month.lines));
    const minutes = year.reduce((sum, month) => sum + month.minutes, 0);
    assert.equal(total(["report", log]), minutes);
    assert.equal(total(["report", log, "--by", "day"]), minutes);
    assert.equal(hours(["list", log]).stdout.split("\n").length, year.length * 20 + 1);
  },
};

console.log(`process ${process.pid}`);
const names = Object.keys(chapters);
for (const [index, name] of names.entries()) {
  const before = runs;
  chapters[name]();
  console.log(`${index + 1} of ${names.length}  ${name}: the program ran ${runs - before} times`);
}
console.log(`All is well: ${runs} runs of the program.`);

function hours(args) {
  runs += 1;
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], { encoding: "utf8" });
  const shown = `hours ${args.join(" ")}`;
  assert.equal(stderr, "", `${shown} complained`);
  assert.equal(status, 0, `${shown} failed`);
  return { stdout };
}

function refused(args, exitCode, complaint) {
  runs += 1;
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], { encoding: "utf8" });
  const shown = `hours ${args.join(" ")}`;
  assert.equal(status, exitCode, `${shown}: exit code`);
  assert.equal(stdout, "", `${shown} printed something although it failed`);
  assert.match(stderr, complaint, shown);
}

/** Returns the total at the end of a report, in minutes. Checks that the lines above the total add up to it. */
function total(args) {
  const rows = hours(args)
    .stdout.trimEnd()
    .split("\n")
    .map((row) => {
      const [, name, h, m] = /^(\S+) +(\d+):(\d\d)$/.exec(row) ?? assert.fail(`not a row of a report: ${row}`);
      return { name, minutes: Number(h) * 60 + Number(m), width: row.length };
    });
  const last = rows.pop();
  assert.equal(last?.name, "total");
  assert.equal(rows.reduce((sum, row) => sum + row.minutes, 0), last.minutes);
  assert.ok(rows.every((row) => row.width === last.width), "the columns don't line up");
  assert.deepEqual(rows.map((row) => row.name), rows.map((row) => row.name).sort());
  return last.minutes;
}

/** Returns twenty entries, some of them over midnight, whose total is known in advance. */
function madeUpMonth(month) {
  const entries = Array.from({ length: 20 }, (_, index) => {
    const start = (Number(month) * 211 + index * 337) % 1440;
    const minutes = 15 + ((Number(month) * 97 + index * 53) % 600);
    const end = start + minutes;
    const day = `2026-${month}-${String(index + 1).padStart(2, "0")}`;
    const span = `${time(Math.floor(start / 60), start % 60)}-${time(Math.floor(end / 60), end % 60)}`;
    return { minutes, line: `${day} ${span} ${PROJECTS[index % PROJECTS.length]} made up` };
  });
  const lines = entries.map((entry) => entry.line);
  return { lines, log: logOf(`2026-${month}`, lines), minutes: entries.reduce((sum, entry) => sum + entry.minutes, 0) };
}

function time(hour, minute) {
  return `${String(hour % 24).padStart(2, "0")}:${String(minute).padStart(2, "0")}`;
}

function logOf(name, lines) {
  const path = `${LOGS}/${name}.txt`;
  writeFileSync(path, `${lines.join("\n")}\n`);
  return path;
}
