// Tests the parts of the page that need no browser.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { branchRows } from "../../../cli/page/src/branches.js";
import { changedText } from "../../../cli/page/src/changed-text.js";
import { isPolicy, RULES, readValues, withRule } from "../../../cli/page/src/policy-rules.js";
import { ALL_TASKS, findParent, formatRoute, parseRoute, type Route } from "../../../cli/page/src/route.js";
import { timeScale } from "../../../cli/page/src/time-scale.js";
import { durationText, offsetText } from "../../../cli/page/src/times.js";
import { openAtFirst, treeRows, valueAt } from "../../../cli/page/src/tree-rows.js";
import { joined, jsonPath, summaryText, typedText } from "../../../cli/page/src/typed.js";
import type { Typed } from "../../../cli/src/ui/api-parts.js";
import { counted } from "../../../cli/src/words.js";

/** Any text that may be a task's id, including lone surrogates. */
const anyId = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { minLength: 1, maxLength: 20 })
  .map((units) => String.fromCharCode(...units));

describe("a place in the page", () => {
  it("is read back from its fragment, whatever the ids are", () => {
    const ids = fc.tuple(anyId, anyId, anyId);
    fc.assert(
      fc.property(ids, ([taskId, from, to]) => {
        const routes: Route[] = [
          { view: "tasks", filter: { ...ALL_TASKS, prefix: taskId, status: ["running", "failed"], order: "taskId" } },
          { view: "tasks", filter: { ...ALL_TASKS, text: from, within: "24h", error: to } },
          { view: "inbox" },
          { view: "retention", choiceId: "c-1" },
          { view: "task", taskId },
          { view: "task", taskId, at: 41 },
          { view: "checkpoint", taskId, id: to },
          { view: "diff", taskId, to },
          { view: "diff", taskId, from, to },
          { view: "diff", taskId, from, to, fromTaskId: from },
          { view: "retention", taskId },
        ];
        for (const route of routes) {
          const fragment = formatRoute(route);
          // The text has no characters that an address bar would change.
          expect(fragment).toMatch(/^#[\w.~/?=&,-]+$/);
          expect(parseRoute(fragment)).toEqual(route);
        }
      }),
    );
  });

  it("is the list of tasks if the fragment names none", () => {
    for (const fragment of ["", "#", "#/", "#/nowhere", "#/task/", "#/tasks?status=odd"]) {
      expect(parseRoute(fragment)).toMatchObject({ view: "tasks", filter: { prefix: "", status: [] } });
    }
  });

  it.each([
    ["#/task/build%2F42", { view: "task", taskId: "build/42" }],
    ["#/task/a%20b%ff", { view: "task", taskId: "a b%ff" }],
  ])("is read from a link that another program has escaped: %s", (fragment, route) => {
    expect(parseRoute(fragment)).toEqual(route);
  });

  it("leads up to the tasks, as they were filtered", () => {
    const tasks: Route = { view: "tasks", filter: { ...ALL_TASKS, prefix: "build/", status: ["failed"] } };
    let route: Route = { view: "diff", taskId: "t", to: "c" };
    const views: string[] = [];
    for (let count = 0; count < 4; count += 1) {
      route = findParent(route, tasks);
      views.push(route.view);
    }
    expect(views).toEqual(["checkpoint", "task", "tasks", "tasks"]);
    expect(route).toEqual(tasks);
  });
});

describe("the scale of a timeline", () => {
  it("gives work its length and folds a night", () => {
    const hour = 3_600_000;
    const scale = timeScale([
      { startMs: 0, endMs: 1000 },
      { startMs: 1000, endMs: 2000 },
      { startMs: 8 * hour, endMs: 8 * hour + 2000 },
    ]);
    expect(scale.folds).toEqual([{ left: expect.closeTo(0.475), width: 0.05, ms: 8 * hour - 2000 }]);
    expect(scale.at(1000)).toBeCloseTo(0.2375);
    expect(scale.at(8 * hour)).toBeCloseTo(0.525);
    expect(scale.at(8 * hour + 2000)).toBe(1);
  });

  it("is linear between the saves of a task without steps, and folds a night between them", () => {
    const minutes = [0, 1, 2, 4, 600, 601].map((minute) => ({ startMs: minute * 60_000, endMs: minute * 60_000 }));
    const scale = timeScale(minutes);
    expect(scale.folds).toEqual([{ left: expect.closeTo(0.76), width: 0.05, ms: 596 * 60_000 }]);
    expect(scale.at(4 * 60_000) / scale.at(60_000)).toBeCloseTo(4);
  });

  it("never turns back, and stays between its ends", () => {
    const time = fc.integer({ min: 0, max: 1e9 });
    const span = fc.tuple(time, fc.integer({ min: 0, max: 1e6 }));
    fc.assert(
      fc.property(fc.array(span, { minLength: 1, maxLength: 30 }), fc.array(time), (spans, times) => {
        const scale = timeScale(spans.map(([startMs, lengthMs]) => ({ startMs, endMs: startMs + lengthMs })));
        let before = 0;
        for (const place of [...times].sort((a, b) => a - b).map((ms) => scale.at(ms))) {
          expect(place).toBeGreaterThanOrEqual(before - 1e-9);
          expect(place).toBeLessThanOrEqual(1);
          before = place;
        }
      }),
    );
  });
});

describe("branches of a history", () => {
  it("are one line without a rewind", () => {
    const rows = branchRows([{ id: "c" }, { id: "b" }, { id: "a" }]);
    expect(rows.map(({ column, past, joins }) => [column, past, joins])).toEqual(Array(3).fill([0, [], []]));
    expect(rows.map(({ hasChild, hasParent }) => [hasChild, hasParent])).toEqual([
      [false, true],
      [true, true],
      [true, false],
    ]);
  });

  it("join where a rewind began", () => {
    // The branch d starts from a, without b and c.
    const rows = branchRows([{ id: "d", parentId: "a" }, { id: "c" }, { id: "b" }, { id: "a" }]);
    expect(rows.map(({ column }) => column)).toEqual([0, 1, 1, 0]);
    expect(rows.map(({ past }) => past)).toEqual([[], [0], [0], []]);
    expect(rows[3]?.joins).toEqual([1]);
  });

  it("end where the parent is not listed", () => {
    expect(branchRows([{ id: "b", parentId: "gone" }, { id: "a" }])).toMatchObject([
      { column: 0, hasParent: false },
      { column: 0, hasChild: false },
    ]);
  });
});

describe("a state", () => {
  const state: Typed = [
    "object",
    [
      ["messages", ["array", [["object", [["role", "user"]], 0]], 2]],
      ["a key", ["map", [["x", 1]], 0]],
      ["pairs", ["map", [[["date", "2026-11-21T00:00:00.000Z"], true]], 0]],
      ["big", ["closed", "array", 9000]],
    ],
    0,
  ];

  it("is as many lines as are open, with one for the children that weren't sent", () => {
    const source = { state, parts: new Map<string, Typed>() };
    const rows = treeRows(source, new Set(["", "0"]));
    expect(rows.map(({ path, more }) => [path.join("."), more])).toEqual([
      ["", undefined],
      ["0", undefined],
      ["0.0", undefined],
      ["0", 2],
      ["1", undefined],
      ["2", undefined],
      ["3", undefined],
    ]);
    expect(rows.at(-1)).toMatchObject({ hasChildren: true, isOpen: false });
  });

  it("takes parts that come later into their places", () => {
    const before = valueAt({ state, parts: new Map() }, [0]) ?? null;
    const parts = new Map([["0", joined(before, ["array", ["second", "third"], 0])]]);
    expect(valueAt({ state, parts }, [0, 2])).toBe("third");
    expect(treeRows({ state, parts }, new Set(["", "0"]))).toHaveLength(8);
  });

  it("has paths as the command takes them", () => {
    const at = (path: readonly number[]) => valueAt({ state, parts: new Map() }, path);
    expect(jsonPath([0, 0, 0], at)).toBe("$.messages[0].role");
    expect(jsonPath([1, 0], at)).toBe('$["a key"].x');
    expect(jsonPath([2, 0], at)).toBe("$.pairs[0][1]");
    expect(jsonPath([], at)).toBe("$");
  });

  it("is opened only as far as it can be read at a glance", () => {
    expect([...openAtFirst(state)].sort()).toEqual(["", "0", "0.0", "1", "2"]);
    const long: Typed = ["object", [["list", ["array", Array(100).fill(0), 0]]], 0];
    expect([...openAtFirst(long)]).toEqual([""]);
  });

  it("says in words what JSON lacks", () => {
    expect(typedText(["map", [["k", ["bigint", "12"]]], 0])).toBe('Map {\n  "k" => 12n\n}');
    expect(typedText(["text", "begin", 105])).toBe('"begin" … 100 more');
    expect(
      summaryText([
        "error",
        [
          ["name", "TypeError"],
          ["message", "no"],
        ],
        0,
      ]),
    ).toBe("TypeError: no");
    expect(typedText(["undefined"])).toBe("undefined");
  });
});

it("marks the words that differ, and never cuts a pair of surrogates", () => {
  expect(changedText("the old house", "the new house")).toEqual({
    start: "the ",
    from: "old",
    to: "new",
    end: " house",
  });
  expect(changedText("a 😀", "a 😁")).toEqual({ start: "a ", from: "😀", to: "😁", end: "" });
  fc.assert(
    fc.property(fc.string(), fc.string(), (from, to) => {
      const cut = changedText(from, to);
      expect([cut.start + cut.from + cut.end, cut.start + cut.to + cut.end]).toEqual([from, to]);
    }),
  );
});

it("offers a configured value on its slider, and leaves other rules alone", () => {
  const keepLast = RULES.find(({ name }) => name === "keepLast");
  if (keepLast === undefined) throw new Error("There is a slider for keepLast.");
  expect(readValues(keepLast, 42)).toContain(42);
  const policy = { keepLast: 42, keepStages: ["done"] };
  expect(withRule(policy, "maxAgeMs", 1000)).toEqual({ ...policy, maxAgeMs: 1000 });
  expect(withRule(policy, "keepLast", undefined)).toEqual({ keepStages: ["done"] });
  expect(isPolicy({ timeZone: "UTC" })).toBe(false);
});

it("counts with separators, as the command does", () => {
  expect([0, 1, 12_000].map((count) => counted(count, "checkpoint"))).toEqual([
    "0 checkpoints",
    "1 checkpoint",
    "12,000 checkpoints",
  ]);
});

it("shows how long after the beginning something was", () => {
  expect([0, 40, 1070, 12_300].map(offsetText)).toEqual(["+0 ms", "+40 ms", "+1.07 s", "+12.3 s"]);
});

it("says durations as people do", () => {
  expect([5, 3100, 245_000, 7_800_000, 273_600_000].map(durationText)).toEqual([
    "5 ms",
    "3.1 s",
    "4 min 5 s",
    "2 h 10 min",
    "3 d 4 h",
  ]);
});
