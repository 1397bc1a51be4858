// The stored form of a run's record.
import { expect, it } from "vitest";
import { decodeRunBody, encodeRunBody, parseRunBody } from "../../../src/codec/run-body.js";

const OWNER = { taskId: "t", id: "a1", stateVersion: 0 };
const HEAD = { id: "a1", generation: "a1", attempt: 1, turn: 1, isTurnOver: false };
const FAILED = { name: "deploy", occurrence: 1, startedAt: "2026-01-01", runAttempt: 1, durationMs: 520, attempts: 3 };

it("keeps the step that ended the run for those who look, and not for the run that goes on", () => {
  const { text } = encodeRunBody({ head: HEAD, failedStep: FAILED }, "");
  expect(decodeRunBody(text, OWNER).run).toMatchObject({ steps: [], failedStep: FAILED });
  expect(parseRunBody(text, OWNER)).toMatchObject({ head: HEAD, steps: [] });
  expect(JSON.stringify(parseRunBody(text, OWNER))).not.toContain("deploy");
});

it.each([
  ["null", null],
  ["a text", "deploy"],
  ["without a name", { ...FAILED, name: undefined }],
  ["with a number as text", { ...FAILED, attempts: "3" }],
])("refuses a failed step that is %s", (_what, failedStep) => {
  const text = JSON.stringify({ run: { ...HEAD, steps: [], failedStep } });
  expect(() => decodeRunBody(text, OWNER)).toThrow("doesn't hold a run");
  expect(() => parseRunBody(text, OWNER)).toThrow("doesn't hold a run");
});
