import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeJson, encodeJson } from "../../../src/codec/json.js";
import { StateNotSerializableError } from "../../../src/contract/errors.js";
import { culprits, leaf, plain, refusable, valuesOf } from "../../support/any-values.js";
import { casesOf } from "../../support/seeded.js";
import { difference } from "./difference.js";
import { follow } from "./follow.js";

const CASES = casesOf(500);
const MAX = 64 * 1024 * 1024;

describe("any value", () => {
  it("comes back unchanged, as a new value each time, from canonical and well-formed text", () => {
    fc.assert(
      fc.property(valuesOf(leaf), (value) => {
        const { encoding, text: encoded } = encodeJson(value, MAX);
        expect(JSON.stringify(JSON.parse(encoded))).toBe(encoded);
        expect(encoded).not.toMatch(/\p{Surrogate}/u);

        const one = decodeJson(encoding, encoded);
        const two = decodeJson(encoding, encoded);
        expect(difference(one, value)).toBeUndefined();
        // The comparison counts a shared object as a difference, so nothing is shared.
        expect(difference(one, two)).toBeUndefined();
        expect(encodeJson(one, MAX)).toEqual({ encoding, text: encoded });
      }),
      { numRuns: CASES },
    );
  });

  it("is written as JSON.stringify writes it if the encoding is json", () => {
    let untagged = 0;
    fc.assert(
      fc.property(fc.oneof(plain, valuesOf(leaf)), (value) => {
        const { encoding, text: encoded } = encodeJson(value, MAX);
        if (encoding === "json") {
          untagged++;
          expect(encoded).toBe(JSON.stringify(value));
        }
        expect(encoding === "json-tagged").toBe(encoded.includes('"$waymark":'));
      }),
      { numRuns: CASES },
    );
    expect(untagged).toBeGreaterThan(CASES / 9);
  });

  it("comes back unchanged, or is refused with the path of the culprit", () => {
    const seen = { refused: 0, kept: 0 };
    fc.assert(
      fc.property(valuesOf(fc.oneof({ arbitrary: leaf, weight: 6 }, { arbitrary: refusable, weight: 1 })), (value) => {
        let encoded: ReturnType<typeof encodeJson>;
        try {
          encoded = encodeJson(value, MAX);
        } catch (error) {
          if (!(error instanceof StateNotSerializableError)) throw error;
          expect(culprits).toContain(follow(value, error.path));
          seen.refused++;
          return;
        }
        seen.kept++;
        expect(difference(decodeJson(encoded.encoding, encoded.text), value)).toBeUndefined();
      }),
      { numRuns: CASES },
    );
    expect(seen.refused).toBeGreaterThan(CASES / 9);
    expect(seen.kept).toBeGreaterThan(CASES / 9);
  });

  it("is refused as too large, and never stored, with one byte less than it needs", () => {
    fc.assert(
      fc.property(valuesOf(leaf), (value) => {
        const bytes = Buffer.byteLength(encodeJson(value, MAX).text);
        expect(Buffer.byteLength(encodeJson(value, bytes).text)).toBe(bytes);
        expect(() => encodeJson(value, bytes - 1)).toThrow(/more than/);
      }),
      { numRuns: CASES },
    );
  });
});
