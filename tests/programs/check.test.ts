import { expect, it } from "vitest";
import { violationsIn } from "./check.js";
import type { Seen, SeenInTurn } from "./seen.js";

const inLife = (life: string, lines: readonly SeenInTurn[]): Seen[] =>
  lines.map((line) => ({ life, task: "t", generation: "g", at: 0, code: 1, ...line }));
const began = { is: "began", attempt: 1, state: null } as const;
const called = (title: string) => ({ is: "called", title, kind: "wait", input: undefined }) as const;
const got = (title: string, value = "slept") => ({ is: "got", title, kind: "wait", value, isError: false }) as const;
const refused = (title: string) => ({ is: "refused", title, isStopped: true }) as const;

it.each([
  {
    title: "A stop may refuse one call before another gets its stored result",
    stop: [{ is: "stopped", reason: "RUN_PAUSED" }] as const,
    reported: [],
  },
  {
    title: "Without a stop, results come in the same order in each life",
    stop: [],
    reported: ['t, generation g, turn 0: "a" answered before "b", and after it in an earlier life'],
  },
])("$title", ({ stop, reported }) => {
  const seen: Seen[] = [
    ...inLife("life-1", [began, ...stop, called("a"), called("b"), got("b"), refused("a")]),
    { is: "ended", life: "life-1", task: "t", how: "stopped" },
    ...inLife("life-2", [began, called("a"), called("b"), got("a"), got("b"), { is: "returned", result: [] }]),
    { is: "ended", life: "life-2", task: "t", how: "completed" },
  ];
  expect(violationsIn(seen)).toEqual(reported);
});

it("Nothing that a function returns after a stop is stored", () => {
  const seen: Seen[] = [
    ...inLife("life-1", [
      began,
      called("a"),
      { is: "stopped", reason: "RUN_PAUSED" },
      got("a"),
      { is: "returned", result: [] },
    ]),
    { is: "ended", life: "life-1", task: "t", how: "completed" },
  ];
  expect(violationsIn(seen)).toEqual([
    "t, generation g, turn 0: the end of its function is stored, though the run had stopped",
  ]);
});

it.each([
  {
    title: "A wait that is called again, and killed, may receive the event for good",
    again: [called("event a")],
    reported: [],
  },
  {
    title: "An event whose receipt was dropped isn't received while no wait is open",
    again: [],
    reported: ["t: event sent-1 is received, and was not received"],
  },
  {
    title: "A wait that has ended without the event hasn't received it",
    again: [called("event a"), got("event a", "nobody")],
    reported: ["t: event sent-1 is received, and was not received"],
  },
  {
    title: "A wait for other events hasn't received it",
    again: [called("event b")],
    reported: ["t: event sent-1 is received, and was not received"],
  },
  {
    title: "A wait that is open at the end of its turn hasn't received it",
    again: [called("event a"), { is: "next", state: null } as const, { ...began, at: 1 }],
    reported: ["t: event sent-1 is received, and was not received"],
  },
])("$title", ({ again, reported }) => {
  const seen: Seen[] = [
    { is: "sent", task: "t", event: "event a", id: "sent-1", isBad: false },
    ...inLife("life-1", [began, called("event a"), got("event a", "event sent-1")]),
    { is: "ended", life: "life-1", task: "t", how: "failed" },
    { is: "dropped", task: "t", generation: "g", at: 0, from: "event a" },
    ...inLife("life-2", [began, ...again]),
    // The task is started again.
    ...inLife("life-3", [began, { is: "returned", result: [] }]).map((line) => ({ ...line, generation: "h" })),
    { is: "ended", life: "life-3", task: "t", how: "completed" },
    { is: "event", task: "t", id: "sent-1", status: "received" },
  ];
  expect(violationsIn(seen)).toEqual(reported);
});

it.each([
  { title: "A life that was killed with an open wait may have received the event", next: [], reported: [] },
  {
    title: "A wait that a later life has ended without the event hasn't received it",
    next: inLife("life-2", [
      ...[began, called("event a"), called("tick"), got("tick"), got("event a", "nobody")],
      { is: "returned", result: [] },
    ]),
    reported: ["t: event sent-1 is received, and was not received"],
  },
])("$title", ({ next, reported }) => {
  const seen: Seen[] = [
    { is: "sent", task: "t", event: "event a", id: "sent-1", isBad: false },
    ...inLife("life-1", [began, called("event a"), called("tick"), got("tick"), { is: "returned", result: [] }]),
    ...next,
    { is: "event", task: "t", id: "sent-1", status: "received" },
  ];
  expect(violationsIn(seen)).toEqual(reported);
});

it.each([
  { title: "A step that an earlier life has called may count as interrupted", before: [called("a")], reported: [] },
  {
    title: "A step that no life has called doesn't count as interrupted",
    before: [called("b")],
    reported: ['t, generation g, turn 0: "a" counts as interrupted, and no life before has called it'],
  },
])("$title", ({ before, reported }) => {
  const seen: Seen[] = [
    ...inLife("life-1", [began, ...before]),
    ...inLife("life-2", [began, called("a"), { ...got("a", "interrupted"), kind: "step" }]),
  ];
  expect(violationsIn(seen)).toEqual(reported);
});

it("An event that later results may have been dropped with is received, if its wait gets it again", () => {
  const seen: Seen[] = [
    { is: "sent", task: "t", event: "event a", id: "sent-1", isBad: false },
    ...inLife("life-1", [began, called("s"), got("s"), called("event a"), got("event a", "event sent-1")]),
    { is: "ended", life: "life-1", task: "t", how: "stopped" },
    // Since its code has changed, the order in which results were recorded is unknown.
    { ...began, life: "life-2", task: "t-fork-1", generation: "f", at: 0, code: 2 },
    { is: "dropped", task: "t", generation: "g", at: 0, from: "s" },
    ...inLife("life-3", [began, called("s"), got("s"), called("event a"), got("event a", "event sent-1")]),
    ...inLife("life-3", [{ is: "returned", result: [] }]),
    { is: "ended", life: "life-3", task: "t", how: "completed" },
    { is: "event", task: "t", id: "sent-1", status: "received" },
  ];
  expect(violationsIn(seen)).toEqual([]);
});
