import { describe, expect, it } from "vitest";
import { KnownBodies } from "../../../src/codec/known-bodies.js";
import { digestOf, openPayload } from "../../../src/codec/payload.js";

const payloadOf = (body: string | Uint8Array) => ({ encoding: "json", body, sha256: digestOf(body) });
const context = { taskId: "t", id: "x", stateVersion: 1 };

describe("known bodies", () => {
  it("know a text by its digest, and no other text", () => {
    const known = new KnownBodies();
    known.add(payloadOf("[1]"));
    expect(known.has(payloadOf("[1]"))).toBe(true);
    expect(known.has({ ...payloadOf("[1]"), body: "[2]" })).toBe(false);
    expect(known.has(payloadOf("[2]"))).toBe(false);
  });

  it("keep the sixteen that were met last, and nothing long or binary", () => {
    const known = new KnownBodies();
    for (let n = 0; n < 16; n++) known.add(payloadOf(`[${n}]`));
    known.add(payloadOf("[0]"));
    known.add(payloadOf("[16]"));
    expect(known.has(payloadOf("[0]"))).toBe(true);
    expect(known.has(payloadOf("[1]"))).toBe(false);
    for (const body of ["x".repeat(64 * 1024 + 1), new Uint8Array(3)]) {
      known.add(payloadOf(body));
      expect(known.has(payloadOf(body))).toBe(false);
    }
  });

  it("don't let damage through: a text that has changed since fails its digest", () => {
    const known = new KnownBodies();
    const payload = payloadOf('{"n":1}');
    expect(known.has(payload)).toBe(false);
    expect(openPayload(payload, { transforms: [], context, known })).toEqual({ state: { n: 1 } });
    expect(known.has(payload)).toBe(true);
    expect(openPayload(payload, { transforms: [], context, known })).toEqual({ state: { n: 1 } });
    expect(() => openPayload({ ...payload, body: '{"n":9}' }, { transforms: [], context, known })).toThrow(/checksum/);
  });
});
