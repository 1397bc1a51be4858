import { afterEach, expect, it, vi } from "vitest";
import { draft } from "../../../../conformance/drafts.js";
import { newPool, newSchema, openAdapter, spyingPool } from "../../../support/postgres.js";

/** A clock that records the length of each pause without really pausing. */
const pauses = vi.hoisted(() => ({ ms: [] as number[] }));

vi.mock("node:timers/promises", async (original) => {
  const real: typeof import("node:timers/promises") = await original();
  const setTimeout = async (ms: number) => {
    pauses.ms.push(ms);
    vi.advanceTimersByTime(ms);
  };
  return { ...real, setTimeout, default: real };
});

afterEach(() => void vi.useRealTimers());

it("the pauses between tries double from 10 ms to 1 s, at random, and end with the time limit", async () => {
  const { url, schema } = await newSchema();
  const fail = () => {
    throw Object.assign(new Error("sorry, too many clients already"), { code: "53300" });
  };
  const adapter = openAdapter({ pool: spyingPool(newPool(url), { before: fail }), schema, retryForMs: 10_000 });
  vi.useFakeTimers({ toFake: ["performance"] });
  await expect(adapter.append(draft("t", "c1"))).rejects.toThrow(/too many clients/);
  // The last pauses take the remaining time, which is less than a microsecond at the end.
  const whole = pauses.ms.filter((ms) => ms > 0.001).slice(0, -1);
  const told = whole.map((ms, index) => ms / Math.min(10 * 2 ** index, 1000));
  expect(told.length).toBeGreaterThan(12);
  for (const part of told) expect(part).toSatisfy((its: number) => its >= 0.5 && its <= 1.5);
  expect(new Set(told).size).toBe(told.length);
  expect(pauses.ms.reduce((sum, ms) => sum + ms)).toBeCloseTo(10_000, 0);
});
