// Tests the timeline of the page without a browser.
import { describe, expect, it } from "vitest";
import { foldTurns, MOST_ROWS, type Opened, type TimelineItem } from "../../../cli/page/src/folds.js";
import { issueText } from "../../../cli/page/src/issue-text.js";
import { timeScale } from "../../../cli/page/src/time-scale.js";
import { tookText, triesOf, turnRows } from "../../../cli/page/src/timeline-rows.js";
import type { TimelineAnswer, TimelineStep } from "../../../cli/src/ui/api-runs.js";

const at = (seconds: number) => new Date(Date.UTC(2026, 10, 21) + seconds * 1000).toISOString();
const step = (name: string, seconds: number, more: Partial<TimelineStep> = {}): TimelineStep => ({
  name,
  title: name,
  occurrence: 1,
  turn: 1,
  generation: "g",
  startedAt: at(seconds),
  runAttempt: 1,
  from: "ran",
  status: "completed",
  checkpointId: "c",
  record: 1,
  sequence: 1,
  ...more,
});
const timeline = (more: Partial<TimelineAnswer>): TimelineAnswer => ({
  now: at(100),
  steps: [],
  attempts: [],
  marks: [],
  saves: [],
  damage: [],
  ...more,
});

describe("the rows of a timeline", () => {
  const rowsOf = (answer: TimelineAnswer) => turnRows(answer).flatMap((turn) => turn.rows);

  it("show a kill between the steps of two attempts, and how far the killed step came", () => {
    const rows = rowsOf(
      timeline({
        steps: [
          step("build", 0, { durationMs: 5000, from: "storage" }),
          step("test", 5, { status: "started" }),
          step("test", 60, { durationMs: 3000, runAttempt: 2 }),
        ],
        attempts: [
          { generation: "g", attempt: 1, startedAt: at(0), lastSeenAt: at(9), end: "killed" },
          { generation: "g", attempt: 2, startedAt: at(59), lastSeenAt: at(63), end: "completed" },
        ],
      }),
    );
    expect(rows.map((row) => (row.kind === "step" ? row.step.name : row.title))).toEqual([
      "build",
      "test",
      "Attempt 1 was killed",
      "Attempt 2 continues",
      "test",
    ]);
    expect(rows[1]).toMatchObject({ isOpen: true, endMs: Date.parse(at(9)) });
  });

  it("say how long a step has been running", () => {
    const [row] = rowsOf(
      timeline({
        steps: [step("copy rows", 20, { status: "started" })],
        attempts: [{ generation: "g", attempt: 1, startedAt: at(0), end: "running" }],
      }),
    );
    expect(row?.kind === "step" && tookText(row)).toBe("1 min 20 s so far");
  });

  it("show an attempt that stopped while it waited at the wait's start", () => {
    const rows = rowsOf(
      timeline({
        steps: [
          step("plan", 0, { durationMs: 1000, from: "storage" }),
          step("approve", 1, { durationMs: 50_000, runAttempt: 2, waitsFor: "event" }),
        ],
        attempts: [
          { generation: "g", attempt: 1, startedAt: at(0), lastSeenAt: at(1), end: "waited" },
          { generation: "g", attempt: 2, startedAt: at(51), lastSeenAt: at(52), end: "completed" },
        ],
      }),
    );
    expect(rows.map((row) => (row.kind === "step" ? row.step.name : row.title))).toEqual([
      "plan",
      "approve",
      "Attempt 1 stopped while it waited",
      "Attempt 2 continues",
    ]);
  });

  it("draw a step that runs now up to now", () => {
    const attempts = [{ generation: "g", attempt: 1, startedAt: at(0), end: "running" as const }];
    const rows = rowsOf(timeline({ steps: [step("model", 40, { status: "started" })], attempts }));
    expect(rows).toMatchObject([{ isOpen: true, endMs: Date.parse(at(100)) }]);
  });

  it("show a milestone once, before the step after it", () => {
    const mark = { kind: "milestone" as const, at: at(5), id: "c1", sequence: 3, stage: "built" };
    const steps = [
      step("build", 0),
      step("built", 5, { status: "saved" }),
      step("test", 5, { record: 4 }),
      step("gone", 9, { status: "saved" }),
    ];
    const rows = rowsOf(timeline({ steps, marks: [mark] }));
    expect(rows.map((row) => (row.kind === "step" ? row.step.name : row.title))).toEqual([
      "build",
      "Saved @3",
      "test",
      "saved gone",
    ]);
  });

  it("show a save in the turn whose step came before it, within one millisecond", () => {
    const turns = turnRows(
      timeline({
        steps: [step("a", 1, { record: 5, durationMs: 0 }), step("b", 1, { record: 8, turn: 2, durationMs: 0 })],
        marks: [{ kind: "milestone", at: at(1), id: "c6", sequence: 6 }],
      }),
    );
    const titles = turns.map(({ rows }) => rows.map((row) => (row.kind === "step" ? row.step.title : row.title)));
    expect(titles).toEqual([["a", "Saved @6"], ["b"]]);
  });

  it("show a failed step before the failure, and the time in which it was tried isn't folded", () => {
    const steps = [
      step("build", 0, { durationMs: 100 }),
      step("deploy", 1, { status: "failed", durationMs: 60_000, attempts: 3, error: "503" }),
    ];
    const mark = { kind: "failed" as const, at: at(61), id: "c", sequence: 2, error: "503" };
    const rows = rowsOf(timeline({ steps, marks: [mark] }));
    expect(rows.map((row) => (row.kind === "step" ? `${row.step.name} ${tookText(row)}` : row.title))).toEqual([
      "build 100 ms",
      "deploy 1 min, 3 tries",
      "Failed @2",
    ]);
    const spans = rows.map((row) => ({ startMs: row.atMs, endMs: row.kind === "step" ? row.endMs : row.atMs }));
    expect(timeScale(spans).folds).toEqual([]);
  });

  it("show what can't be read after the save before it", () => {
    const marks = [
      { kind: "milestone" as const, at: at(5), id: "c1", sequence: 1, stage: "one" },
      { kind: "milestone" as const, at: at(9), id: "c3", sequence: 3, stage: "three" },
    ];
    const saves = marks.map((mark) => [mark.sequence, Date.parse(mark.at), 10] as const);
    const damage = [{ location: "row 2", reason: "cut", id: "c2", sequence: 2 }];
    const rows = rowsOf(timeline({ marks, saves, damage }));
    expect(rows.map((row) => (row.kind === "event" ? row.title : row.kind))).toEqual([
      "Saved @1",
      "⚠ @2 can't be read",
      "Saved @3",
    ]);
  });

  it("have a bar for each try", () => {
    const retried = step("model", 0, { durationMs: 9000, attempts: 3, retriedAt: [at(2), at(5)] });
    const [row] = rowsOf(timeline({ steps: [retried] }));
    const tries = row?.kind === "step" ? triesOf(row) : [];
    expect(tries.map(({ startMs, endMs }) => endMs - startMs)).toEqual([2000, 3000, 4000]);
  });
});

describe("the turns of a timeline", () => {
  const turn = (number: number, steps: number, status: TimelineStep["status"] = "completed") =>
    Array.from({ length: steps }, (_, index) => {
      const record = number * 1000 + index;
      return step("model", record, { turn: number, record, durationMs: 100, status });
    });
  const fold = (steps: readonly TimelineStep[], opened: Partial<Opened> = {}) =>
    foldTurns(turnRows(timeline({ steps })), { toggled: new Set(), shown: new Map(), pinned: [], ...opened });
  const titles = (items: readonly TimelineItem[]) =>
    items.map((item) => (item.kind === "step" ? item.key : item.title));
  const run = (turns: number) => Array.from({ length: turns }, (_, index) => turn(index + 1, 2)).flat();

  it("are folded with totals, but the last one and the failing one", () => {
    const failing = [...run(24), ...turn(25, 1, "failed"), ...turn(26, 1), ...turn(27, 1)];
    const items = fold(failing, { pinned: ["@25000"] });
    expect(titles(items)).toEqual(["Turns 1–24", "Turn 25", "@25000", "Turn 26", "Turn 27", "@27000"]);
    // Each turn lasts from its first step to its last one's end.
    expect(items[0]).toMatchObject({ totals: "48 steps · 26.4 s", isOpen: false, hasFailed: false });
  });

  it("open by ten, so that a thousand turns are never drawn together", () => {
    let items = fold(run(1000));
    const toggled = new Set<string>();
    const open = (title: string) => {
      toggled.add(items.find((item) => item.kind === "fold" && item.title === title)?.key ?? "");
      items = fold(run(1000), { toggled });
    };
    expect(titles(items)).toEqual(["Turns 1–999", "Turn 1,000", "@1000000", "@1000001"]);
    open("Turns 1–999");
    expect(titles(items).slice(0, 3)).toEqual(["Turns 1–999", "Turns 1–100", "Turns 101–200"]);
    open("Turns 101–200");
    open("Turns 111–120");
    open("Turn 112");
    expect(titles(items)).toContain("@112001");
    expect(items.length).toBeLessThan(40);
  });

  it("show the last rows of a long one, and those around the selected one", () => {
    const long = turn(1, 10_000);
    const items = fold(long);
    expect([items.length, titles(items)[0]]).toEqual([MOST_ROWS + 1, "Show 60 rows before these; 9,940 are left"]);
    const around = titles(fold(long, { pinned: ["@1500"] }));
    expect([around.length, around[0], around[10], around[20]]).toEqual([MOST_ROWS + 22, "@1490", "@1500", "@1510"]);
    expect(fold(long, { shown: new Map([["turn 0", 120]]) })).toHaveLength(121);
  });

  it("aren't folded if there is one", () => {
    expect(titles(fold(turn(1, 2)))).toEqual(["@1000", "@1001"]);
  });
});

it("copies a failure as Markdown, with fences that no text breaks", () => {
  const error = { name: "TypeError", code: "ENOSPC", message: "no room", stack: "TypeError: no room\n```", causes: [] };
  const started = { startedAt: at(0), runAttempt: 2, chunks: [] };
  const failed = { ...started, record: 9, title: "deploy", status: "failed" as const, attempts: 3, durationMs: 1200 };
  const before = { ...started, record: 8, title: "plan", status: "completed" as const, result: "the plan" };
  const text = issueText(
    { name: "agent", newest: { id: "c", sequence: 12, createdAt: at(5), sizeBytes: 1 } },
    { error, step: failed, before, input: 7 },
    "npx waymark show agent",
  );
  expect(text.split("\n\n")).toEqual([
    "## agent failed: no room",
    [
      "- Error: TypeError, ENOSPC",
      "- Step: deploy, 3 tries, attempt 2",
      "- Took: 1.2 s",
      "- Failed: 2026-11-21 00:00:05 UTC, @12",
    ].join("\n"),
    ...["### Error", "````\nTypeError: no room\n```\n````"],
    ...["### Input of the run", "```\n7\n```"],
    ...["### Result of the step before, plan", '```\n"the plan"\n```'],
    ...["### To see it", "```\nnpx waymark show agent\n```"],
  ]);
});
