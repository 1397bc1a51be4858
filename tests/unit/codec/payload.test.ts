import { hash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { gzip } from "../../../src/codec/gzip.js";
import {
  digestBody,
  makePayload,
  type OpenPayloadOptions,
  openPayload,
  openToRenew,
  payloadFor,
} from "../../../src/codec/payload.js";
import type { PayloadOwner, Transform, TransformContext } from "../../../src/codec/transforms.js";
import type { Payload } from "../../../src/contract/checkpoint.js";
import {
  CheckpointCorruptError,
  PayloadTooLargeError,
  StateNotSerializableError,
  UnsupportedFormatError,
} from "../../../src/contract/errors.js";
import { difference } from "./difference.js";

const context: PayloadOwner = { taskId: "t", id: "c1", stage: "gate", stateVersion: 2 };
const maxBytes = 1024 * 1024;

/** A transform that flips every bit, and binds the context like an encryption. */
function xor(name = "xor"): Transform {
  const bound = ({ taskId, id, stage, parentId, stateVersion, encoding }: TransformContext) =>
    hash("sha256", JSON.stringify([taskId, id, stage, parentId, stateVersion, encoding]), "buffer");
  return {
    name,
    encode: (body, to) => Buffer.concat([bound(to), body.map((byte) => byte ^ 0xff)]),
    decode(body, from) {
      if (!bound(from).equals(body.subarray(0, 32))) throw new Error("bound to another checkpoint");
      return body.subarray(32).map((byte) => byte ^ 0xff);
    },
  };
}

const options = (...transforms: Transform[]) => ({ maxBytes, transforms, context });
const payloadOf = async (...making: Parameters<typeof makePayload>) => (await makePayload(...making)).payload;
const stateOf = async (payload: Payload, opening: OpenPayloadOptions) => (await openPayload(payload, opening)).state;

describe("a payload without transforms", () => {
  it("is made and opened at once, as JSON with its digest", () => {
    const made = makePayload({ a: [1, "ä"] }, options());
    const body = '{"a":[1,"ä"]}';
    expect(made).toEqual({ payload: { encoding: "json", body, sha256: hash("sha256", body) }, sizeBytes: 14 });
    if (made instanceof Promise) throw new Error("It is a promise.");
    expect(openPayload(made.payload, options())).toEqual({ state: { a: [1, "ä"] } });
  });

  it("carries rich values in tags", async () => {
    const state = { at: new Date(3), left: undefined };
    const payload = await payloadOf(state, options());
    expect(payload.encoding).toBe("json-tagged");
    expect(difference(await stateOf(payload, options()), state)).toBeUndefined();
  });

  it("is independent each time it is opened", async () => {
    const payload = await payloadOf({ list: [1] }, options());
    const one = (await stateOf(payload, options())) as { list: number[] };
    one.list.push(2);
    expect(await stateOf(payload, options())).toEqual({ list: [1] });
  });

  it("is corrupt if a character has changed, and the error names the checkpoint", async () => {
    const payload = await payloadOf({ n: 1 }, options());
    const changed = { ...payload, body: '{"n":2}' };
    expect(() => openPayload(changed, options())).toThrow(CheckpointCorruptError);
    expect(() => openPayload(changed, options())).toThrow(
      /^Checkpoint c1 of task "t" can't be loaded: its payload fails its SHA-256/,
    );
  });

  it("is corrupt if it is bytes", () => {
    const body = Buffer.from("{}");
    for (const encoding of ["json", "json-tagged"]) {
      const payload = { encoding, body, sha256: hash("sha256", body) };
      expect(() => openPayload(payload, options())).toThrow(CheckpointCorruptError);
    }
  });

  it("is corrupt if it isn't JSON", () => {
    const payload = { encoding: "json", body: "{", sha256: hash("sha256", "{") };
    expect(() => openPayload(payload, options())).toThrow(
      /^Checkpoint c1 of task "t" can't be loaded: its text is not JSON/,
    );
  });
});

describe("a payload with transforms", () => {
  it("names them in its encoding, and is undone right to left", async () => {
    const state = { text: "again and again ".repeat(100), at: new Date(5) };
    const payload = await payloadOf(state, options(gzip(), xor()));
    expect(payload.encoding).toBe("json-tagged+gzip+xor");
    expect(payload.body).toBeInstanceOf(Uint8Array);
    expect(payload.sha256).toBe(hash("sha256", payload.body));
    expect(payload.body.length).toBeLessThan(300);
    expect(difference(await stateOf(payload, options(gzip(), xor())), state)).toBeUndefined();
  });

  it("opens by its own encoding, whatever transforms are configured now", async () => {
    const state = { a: 1 };
    const now = options(xor("other"), xor(), gzip());
    for (const former of [[], [gzip()], [xor()], [xor(), gzip()], [gzip(), xor()]]) {
      expect(await stateOf(await payloadOf(state, options(...former)), now)).toEqual(state);
    }
  });

  it("is made during the call: later changes aren't in it", async () => {
    const state = { list: [1], when: new Date(1) };
    const making = makePayload(state, options(gzip()));
    state.list.push(2);
    state.when.setTime(9);
    expect(await stateOf((await making).payload, options(gzip()))).toEqual({ list: [1], when: new Date(1) });
  });

  it("is refused during the call if the value is refused", () => {
    expect(() => makePayload({ f() {} }, options(gzip()))).toThrow(StateNotSerializableError);
    expect(() => makePayload("x".repeat(maxBytes), options(gzip()))).toThrow(PayloadTooLargeError);
  });

  it("doesn't open under another checkpoint if a transform binds it", async () => {
    const payload = await payloadOf({ a: 1 }, options(xor()));
    const opening = openPayload(payload, { transforms: [xor()], context: { ...context, id: "c2" } });
    await expect(opening).rejects.toThrow(UnsupportedFormatError);
    await expect(opening).rejects.toMatchObject({ cause: new Error("bound to another checkpoint") });
  });

  it("refuses a payload with a transform twice: a nested bomb would stay within each layer's limits", async () => {
    const { body } = await payloadOf({ a: 1 }, options(gzip()));
    const twice = gzipSync(body);
    const payload = { encoding: "json+gzip+gzip", body: twice, sha256: digestBody(twice) };
    expect(() => openPayload(payload, options(gzip()))).toThrow(CheckpointCorruptError);
    await expect(openToRenew(payload, options(gzip()))).rejects.toThrow(/names a transform twice/);
  });

  it("names the transform that is missing", async () => {
    const payload = await payloadOf({ a: 1 }, options(gzip(), xor()));
    expect(() => openPayload(payload, options(gzip()))).toThrow(UnsupportedFormatError);
    expect(() => openPayload(payload, options(gzip()))).toThrow(/c1 .*"json\+gzip\+xor", and no transform named "xor"/);
    expect(() => openPayload(payload, options(xor()))).toThrow(/no transform named "gzip"/);
  });

  it("counts as a newer version's if its encoding is unknown", () => {
    for (const encoding of ["cbor", "cbor+gzip", "", "run", "jsonl"]) {
      const payload = { encoding, body: "{}", sha256: hash("sha256", "{}") };
      expect(() => openPayload(payload, options(gzip()))).toThrow(UnsupportedFormatError);
    }
  });

  it("is corrupt if its body has changed or is text", async () => {
    const payload = await payloadOf({ a: 1 }, options(gzip()));
    const body = Uint8Array.from(payload.body as Uint8Array);
    body[12]! ^= 1;
    expect(() => openPayload({ ...payload, body }, options(gzip()))).toThrow(CheckpointCorruptError);
    const asText = { ...payload, body: "{}", sha256: hash("sha256", "{}") };
    expect(() => openPayload(asText, options(gzip()))).toThrow(CheckpointCorruptError);
  });

  it("is corrupt if there is no UTF-8 under its transforms", async () => {
    const body = xor().encode(Uint8Array.from([0x22, 0xff, 0x22]), { ...context, encoding: "json+xor" }) as Uint8Array;
    const payload = { encoding: "json+xor", body, sha256: hash("sha256", body) };
    await expect(openPayload(payload, options(xor()))).rejects.toThrow(CheckpointCorruptError);
  });

  it("passes on a transform's reason in our own errors", async () => {
    const reason = new CheckpointCorruptError("cut short");
    const strict: Transform = { ...xor(), decode: () => Promise.reject(reason) };
    const payload = await payloadOf(1, options(xor()));
    await expect(openPayload(payload, options(strict))).rejects.toBe(reason);
  });

  it("rejects with the error that a transform throws while encoding", async () => {
    const failing: Transform = {
      ...xor(),
      encode: () => {
        throw new Error("no key");
      },
    };
    await expect(makePayload(1, options(failing))).rejects.toThrow("no key");
  });

  it("is a TypeError if a transform returns no bytes", async () => {
    const wrong = { ...xor(), encode: () => "text" } as unknown as Transform;
    await expect(makePayload(1, options(wrong))).rejects.toThrow(/"xor" must encode to a Uint8Array/);
    const payload = await payloadOf(1, options(xor()));
    const lossy = { ...xor(), decode: () => undefined } as unknown as Transform;
    await expect(openPayload(payload, options(lossy))).rejects.toThrow(/"xor" must decode to a Uint8Array/);
  });

  it("refuses a transform whose name could not be found again", () => {
    for (const name of ["", "a+b", "json", "json-tagged", "1st", "two words"]) {
      expect(() => makePayload(1, options(xor(name)))).toThrow(TypeError);
    }
    expect(() => makePayload(1, options(xor(), xor()))).toThrow(/Two transforms are named "xor"/);
  });
});

describe("a payload for another checkpoint", () => {
  const owner: PayloadOwner = { taskId: "u", id: "c9", stage: "gate", parentId: "c1", stateVersion: 2 };

  it("stays the same if no transform binds it, configured or not", async () => {
    for (const [former, now] of [
      [[], []],
      [[gzip({ level: 9 })], [gzip({ level: 0 })]],
      [[], [gzip()]],
    ] as const) {
      const made = await makePayload({ a: "ä" }, options(...former));
      const copied = await payloadFor(owner, made.payload, options(...now));
      expect(copied).toEqual(made);
      expect(copied.payload).toBe(made.payload);
    }
  });

  it("is made again by the current transforms if one binds it, or doesn't say", async () => {
    const state = { text: "again ".repeat(100), at: new Date(5) };
    for (const [former, now] of [
      [[xor()], [xor()]],
      [
        [gzip(), xor()],
        [xor(), gzip()],
      ],
      [[], [gzip(), xor()]],
      [[xor("old")], [gzip(), xor("old")]],
    ] as const) {
      const payload = await payloadOf(state, options(...former));
      const { payload: copied, sizeBytes } = await payloadFor(owner, payload, options(...now));
      expect(copied.encoding).toBe(["json-tagged", ...now.map(({ name }) => name)].join("+"));
      expect(sizeBytes).toBe(copied.body.length);
      expect(await stateOf(copied, { transforms: [...now], context: owner })).toEqual(state);
    }
  });

  it("is refused if the payload can't be opened", async () => {
    const payload = await payloadOf({ a: 1 }, options(gzip(), xor()));
    const copying = (changed: Partial<Payload>, ...transforms: Transform[]) =>
      payloadFor(owner, { ...payload, ...changed }, options(...transforms));
    await expect(copying({}, gzip())).rejects.toThrow(/no transform named "xor"/);
    await expect(copying({ sha256: "0" }, gzip(), xor())).rejects.toThrow(CheckpointCorruptError);
    await expect(copying({ encoding: "cbor" }, gzip(), xor())).rejects.toThrow(UnsupportedFormatError);
    await expect(copying({ encoding: "json" })).rejects.toThrow(/but its payload is bytes, not text/);
  });
});

it("counts and hashes a body's bytes, whatever its length", async () => {
  for (const state of ["aä😀\ud800", "ä".repeat(21_840), "ä".repeat(21_850), "😀".repeat(100_000)]) {
    const { payload, sizeBytes } = await makePayload(state, options());
    expect(sizeBytes).toBe(Buffer.byteLength(payload.body));
    expect(payload.sha256).toBe(hash("sha256", payload.body));
  }
  const { payload, sizeBytes } = await makePayload("x".repeat(1000), options(gzip()));
  expect(sizeBytes).toBe(payload.body.length);
});
