import assert from "node:assert/strict";
import { test } from "node:test";
import { minutesOf, report } from "../src/report.js";
import { type Entry, parseLog } from "../src/log.js";

const entry = (line: string): Entry => {
  const [first] = parseLog(line);
  assert.ok(first);
  return first;
};

test("a span counts its minutes", () => {
  assert.equal(minutesOf(entry("2026-11-16 09:00-12:15 waymark")), 195);
});

test("a span over midnight goes on into the next day", () => {
  assert.equal(minutesOf(entry("2026-11-20 22:30-00:45 on-call")), 135);
});

test("a span from a time to the same time is a whole day", () => {
  assert.equal(minutesOf(entry("2026-11-21 08:00-08:00 on-call")), 1440);
});

test("adds up by project, in the order of the alphabet", () => {
  const entries = parseLog(
    "2026-11-16 13:00-14:00 writing\n2026-11-16 09:00-12:15 waymark\n2026-11-17 09:00-09:30 writing\n",
  );
  assert.equal(report(entries, "project"), "waymark   3:15\nwriting   1:30\ntotal     4:45\n");
});

test("adds up by day", () => {
  const entries = parseLog("2026-11-17 09:00-10:00 waymark\n2026-11-16 09:00-12:00 waymark\n");
  assert.equal(report(entries, "day"), "2026-11-16   3:00\n2026-11-17   1:00\ntotal        4:00\n");
});

test("an empty log has a total of nothing", () => {
  assert.equal(report([], "project"), "total   0:00\n");
});
