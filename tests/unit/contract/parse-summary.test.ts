import { describe, expect, it } from "vitest";
import { parseSummary } from "../../../src/contract/parse-summary.js";

const WHOLE = {
  taskId: "t",
  id: "c1",
  sequence: 3,
  createdAt: "2026-11-23T01:02:03.000Z",
  status: "failed",
  stateVersion: 1,
  sizeBytes: 0,
  encoding: "json",
  sha256: "aa",
  seal: "bb",
};

describe("parseSummary", () => {
  it("returns the existing fields, and omits absent ones", () => {
    const { encoding, sha256, ...rest } = WHOLE;
    const required = { ...rest, payload: { encoding, sha256 } };
    expect(parseSummary({ ...WHOLE, stage: null, label: undefined, metadata: null })).toStrictEqual(required);
    const optional = { stage: "s", label: "l", parentId: "c0", metadata: { a: [1] } };
    expect(parseSummary({ ...WHOLE, ...optional, error: { message: "m", code: "E", other: 1 } })).toStrictEqual({
      ...required,
      ...optional,
      error: { message: "m", code: "E" },
    });
  });

  it.each([
    [{ taskId: 1 }, "its taskId isn't text"],
    [{ id: undefined }, "its id isn't text"],
    [{ createdAt: null }, "its createdAt isn't text"],
    [{ label: 5 }, "its label isn't text"],
    [{ sha256: new Uint8Array(1) }, "its sha256 isn't text"],
    [{ sequence: 0 }, "its sequence isn't a whole number from 1"],
    [{ sequence: "3" }, "its sequence isn't a whole number from 1"],
    [{ sequence: 2 ** 53 }, "its sequence isn't a whole number from 1"],
    [{ sizeBytes: -1 }, "its sizeBytes isn't a whole number from 0"],
    [{ status: "done" }, "its status is unknown"],
    [{ metadata: [] }, "its metadata isn't an object"],
    [{ error: { message: "m", code: 2 } }, "its error isn't an object of texts"],
    [{ error: {} }, "its error isn't an object of texts"],
  ])("says what is wrong with %j", (changed, reason) => {
    expect(parseSummary({ ...WHOLE, ...changed })).toBe(reason);
  });
});
