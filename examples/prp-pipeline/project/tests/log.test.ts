import assert from "node:assert/strict";
import { test } from "node:test";
import { clock, parseLog } from "../src/log.js";

test("reads an entry", () => {
  assert.deepEqual(parseLog("2026-11-16 09:00-12:15 waymark Retention plan\n"), [
    { day: "2026-11-16", start: 540, end: 735, project: "waymark", note: "Retention plan" },
  ]);
});

test("passes over empty lines and comments", () => {
  assert.deepEqual(parseLog("# November\n\n   \n"), []);
});

test("names the line of a time that doesn't exist", () => {
  assert.throws(() => parseLog("# November\n2026-11-16 09:00-24:15 waymark\n"), /^LogError: 2: "24:15" is no time/);
});

test("writes minutes as hours", () => {
  assert.equal(clock(570), "9:30");
  assert.equal(clock(1500), "25:00");
});
