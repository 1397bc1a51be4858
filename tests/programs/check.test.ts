import { expect, it } from "vitest";
import { violationsIn } from "./check.js";
import type { Seen, SeenInTurn } from "./seen.js";

const inLife = (life: string, lines: readonly SeenInTurn[]): Seen[] =>
  lines.map((line) => ({ life, task: "t", generation: "g", at: 0, code: 1, ...line }));
const began = { is: "began", attempt: 1, state: null } as const;
const called = (title: string) => ({ is: "called", title, kind: "wait", input: undefined }) as const;
const got = (title: string) => ({ is: "got", title, kind: "wait", value: "slept", isError: false }) as const;
const refused = (title: string) => ({ is: "refused", title, isStopped: true }) as const;

it.each([
  {
    title: "A stop may refuse one call before another gets its stored result",
    stop: [{ is: "stopped" }] as const,
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
    ...inLife("life-1", [began, called("a"), { is: "stopped" }, got("a"), { is: "returned", result: [] }]),
    { is: "ended", life: "life-1", task: "t", how: "completed" },
  ];
  expect(violationsIn(seen)).toEqual([
    "t, generation g, turn 0: the end of its function is stored, though the run had stopped",
  ]);
});
