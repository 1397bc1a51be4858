import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { gzip } from "../../../src/codec/gzip.js";
import { CheckpointCorruptError, PayloadTooLargeError } from "../../../src/contract/errors.js";

const context = { taskId: "t", id: "c1", stateVersion: 1, encoding: "json+gzip" };

describe("gzip", () => {
  it("writes what any gunzip reads", async () => {
    const body = Buffer.from("abc".repeat(1000));
    const packed = await gzip().encode(body, context);
    expect(packed.byteLength).toBeLessThan(100);
    expect(gunzipSync(packed).equals(body)).toBe(true);
  });

  it("restores its input at every level, and leaves it unchanged", async () => {
    const body = Uint8Array.from({ length: 5000 }, (_, i) => (i * 7919) % 251);
    const before = body.slice();
    for (const level of [-1, 0, 1, 9]) {
      const transform = gzip({ level });
      expect(Buffer.from(await transform.decode(await transform.encode(body, context), context)).equals(before)).toBe(
        true,
      );
    }
    expect(body).toEqual(before);
  });

  it("refuses a bomb while it expands", async () => {
    const bomb = gzipSync(Buffer.alloc(50 * 1024 * 1024));
    const decoding = gzip({ maxBytes: 1024 * 1024 }).decode(bomb, context);
    await expect(decoding).rejects.toThrow(PayloadTooLargeError);
    await expect(decoding).rejects.toThrow(/^Checkpoint c1 of task "t" can't be loaded: .* 1048576 bytes/);
  });

  it("refuses to save a payload that it would refuse to load", async () => {
    const exact = gzip({ maxBytes: 1000 });
    const packed = await exact.encode(Buffer.alloc(1000), context);
    expect((await exact.decode(packed, context)).byteLength).toBe(1000);
    await expect(exact.encode(Buffer.alloc(1001), context)).rejects.toThrow(PayloadTooLargeError);
  });

  it.each([
    ["no gzip data", Buffer.from("plain")],
    ["cut short", gzipSync("abcdefgh").subarray(0, 15)],
    ["nothing", Buffer.alloc(0)],
  ])("reports %s as corrupt", async (_what, body) => {
    await expect(gzip().decode(body, context)).rejects.toThrow(CheckpointCorruptError);
  });

  it("refuses options that are out of range or misspelled when it is made", () => {
    for (const level of [-2, 10, 1.5, Number.NaN]) expect(() => gzip({ level })).toThrow(RangeError);
    for (const maxBytes of [0, -1, 1.5, Number.POSITIVE_INFINITY]) expect(() => gzip({ maxBytes })).toThrow(RangeError);
    const misspelled = { levle: 9 };
    expect(() => gzip(misspelled as object)).toThrow(/has no "levle"/);
  });
});
