import { hash, webcrypto } from "node:crypto";
import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type EncryptOptions, encrypt } from "../../../src/codec/encrypt.js";
import { gzip } from "../../../src/codec/gzip.js";
import { makePayload, openPayload } from "../../../src/codec/payload.js";
import type { CheckpointOwner, RecordOwner, Transform } from "../../../src/codec/transforms.js";
import { CheckpointCorruptError, DecryptionFailedError } from "../../../src/contract/errors.js";

const KEY = webcrypto.getRandomValues(new Uint8Array(32));
const OTHER = webcrypto.getRandomValues(new Uint8Array(32));
const owner: CheckpointOwner = { taskId: "t", id: "c1", stage: "gate", parentId: "c0", stateVersion: 2 };
const context = { ...owner, encoding: "json+encrypt" };
const step: RecordOwner = {
  taskId: "t",
  kind: "step",
  name: "model",
  recordKey: "1/1",
  createdAt: "2026-11-21T00:00:00.000Z",
};
const stepContext = { ...step, encoding: "json+encrypt" };
const text = Buffer.from('{"secret":"the eagle has landed"}');

const encrypting = (options: Partial<EncryptOptions> = {}) => encrypt({ keys: { k1: KEY }, current: "k1", ...options });
const payloadOf = async (state: unknown, ...transforms: Transform[]) =>
  (await makePayload(state, { maxBytes: 1024 * 1024, transforms, context: owner })).payload;
const withDigest = (encoding: string, body: Uint8Array) => ({ encoding, body, sha256: hash("sha256", body) });

describe("encrypt", () => {
  it("writes the envelope that is documented, which WebCrypto opens by the documentation alone", async () => {
    const sealed = await encrypting().encode(text, context);
    expect([...sealed.subarray(0, 4)]).toEqual(
      [1, 2, ..."k1"].map((part) => (typeof part === "string" ? part.charCodeAt(0) : part)),
    );
    const key = await webcrypto.subtle.importKey("raw", KEY, "AES-GCM", false, ["decrypt"]);
    const bound = ["waymark-encrypt", 1, "k1", "json+encrypt", "t", "c1", "gate", "c0", 2];
    const additionalData = new TextEncoder().encode(JSON.stringify(bound));
    const algorithm = { name: "AES-GCM", iv: sealed.subarray(4, 16), additionalData, tagLength: 128 };
    const opened = await webcrypto.subtle.decrypt(algorithm, key, sealed.subarray(16));
    expect(Buffer.from(opened).equals(text)).toBe(true);
  });

  it("opens what WebCrypto sealed by the documentation alone, absent fields as null", async () => {
    const key = await webcrypto.subtle.importKey("raw", KEY, "AES-GCM", false, ["encrypt"]);
    const bound = ["waymark-encrypt", 1, "k1", "json+encrypt", "t", "c1", null, null, 1];
    const additionalData = new TextEncoder().encode(JSON.stringify(bound));
    const iv = webcrypto.getRandomValues(new Uint8Array(12));
    const sealed = await webcrypto.subtle.encrypt({ name: "AES-GCM", iv, additionalData }, key, text);
    const body = Buffer.concat([Buffer.from([1, 2]), Buffer.from("k1"), iv, Buffer.from(sealed)]);
    const opened = await encrypting().decode(body, {
      taskId: "t",
      id: "c1",
      stateVersion: 1,
      encoding: "json+encrypt",
    });
    expect(Buffer.from(opened).equals(text)).toBe(true);
  });

  it("restores any state, for the checkpoint that it belongs to", async () => {
    const owners = fc.record(
      {
        taskId: fc.string({ minLength: 1, unit: "grapheme" }),
        id: fc.string({ minLength: 1 }),
        stage: fc.option(fc.string({ minLength: 1 }), { nil: undefined }),
        parentId: fc.option(fc.string({ minLength: 1 }), { nil: undefined }),
        stateVersion: fc.integer({ min: 1 }),
      },
      { requiredKeys: ["taskId", "id", "stateVersion"] },
    );
    const transforms = [gzip({ level: 1 }), encrypting()];
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), owners, async (state, its) => {
        const { payload } = await makePayload(state, { maxBytes: 1024 * 1024, transforms, context: its });
        expect(payload.encoding).toMatch(/^json(-tagged)?\+gzip\+encrypt$/);
        const { state: opened } = await openPayload(payload, { transforms, context: its });
        expect(opened).toEqual(state);
      }),
    );
  });

  it("restores a large text, and leaves its argument unchanged", async () => {
    const large = Buffer.alloc(9 * 1024 * 1024 + 1, "abc");
    const before = hash("sha256", large);
    const transform = encrypting();
    const sealed = await transform.encode(large, context);
    expect(sealed.byteLength).toBe(large.byteLength + 2 + 2 + 12 + 16);
    expect(hash("sha256", await transform.decode(sealed, context))).toBe(before);
    expect(hash("sha256", large)).toBe(before);
  });

  it("refuses a payload with one changed byte, even if its digest was renewed", async () => {
    const payload = await payloadOf({ n: 1 }, encrypting());
    const sealed = Buffer.from(payload.body);
    for (let at = 0; at < sealed.byteLength; at++) {
      for (const mask of [0x01, 0x80]) {
        const changed = Buffer.from(sealed);
        changed.writeUInt8(changed.readUInt8(at) ^ mask, at);
        const opening = openPayload(withDigest(payload.encoding, changed), {
          transforms: [encrypting()],
          context: owner,
        });
        await expect(opening, `byte ${at}`).rejects.toMatchObject({ code: "DECRYPTION_FAILED" });
      }
    }
    for (let length = 0; length < sealed.byteLength; length++) {
      const cut = withDigest(payload.encoding, sealed.subarray(0, length));
      const opening = openPayload(cut, { transforms: [encrypting()], context: owner });
      await expect(opening, `cut to ${length}`).rejects.toMatchObject({ code: "DECRYPTION_FAILED" });
    }
  });

  it.each<[string, Partial<typeof context>]>([
    ["task", { taskId: "u" }],
    ["id", { id: "c2" }],
    ["stage", { stage: "gate-2" }],
    ["stage, which is gone", { stage: undefined }],
    ["parent", { parentId: "c9" }],
    ["parent, which is gone", { parentId: undefined }],
    ["stage and parent, exchanged", { stage: "c0", parentId: "gate" }],
    ["state version", { stateVersion: 1 }],
    ["format: tags where there were none", { encoding: "json-tagged+encrypt" }],
    ["format: a compression that wasn't there", { encoding: "json+gzip+encrypt" }],
  ])("refuses a payload under another %s", async (_what, other) => {
    const sealed = await encrypting().encode(text, context);
    await expect(encrypting().decode(sealed, { ...context, ...other })).rejects.toThrow(DecryptionFailedError);
  });

  it.each<[string, Partial<typeof stepContext>]>([
    ["task", { taskId: "u" }],
    ["kind", { kind: "chunk" }],
    ["name", { name: "tool" }],
    ["name, which is gone", { name: undefined }],
    ["key", { recordKey: "1/2" }],
    ["key, which became the name", { name: "1/1", recordKey: "model" }],
    ["id", { id: "e1" }],
    ["time", { createdAt: "2026-11-21T00:00:00.001Z" }],
    ["format", { encoding: "json-tagged+encrypt" }],
  ])("refuses a record's payload under another %s", async (_what, other) => {
    const sealed = await encrypting().encode(text, stepContext);
    expect(await encrypting().decode(sealed, stepContext)).toEqual(text);
    await expect(encrypting().decode(sealed, { ...stepContext, ...other })).rejects.toThrow(DecryptionFailedError);
  });

  it("refuses a record's payload as a checkpoint's, and the other way round", async () => {
    const ofRecord = await encrypting().encode(text, stepContext);
    const ofCheckpoint = await encrypting().encode(text, context);
    await expect(encrypting().decode(ofRecord, context)).rejects.toThrow(DecryptionFailedError);
    await expect(encrypting().decode(ofCheckpoint, stepContext)).rejects.toThrow(DecryptionFailedError);
  });

  it("refuses a payload under any other context", async () => {
    const word = fc.constantFrom("a", "b", '","', "null", "\\", '"', "a,b", "1");
    const some = fc.option(word, { nil: undefined });
    const contexts = fc.record({
      taskId: word,
      id: word,
      stage: some,
      parentId: some,
      stateVersion: fc.integer({ min: 1, max: 2 }),
      encoding: word,
    });
    await fc.assert(
      fc.asyncProperty(contexts, contexts, async (one, two) => {
        fc.pre(inspect(one) !== inspect(two));
        const sealed = await encrypting().encode(text, one);
        await expect(encrypting().decode(sealed, two)).rejects.toThrow(DecryptionFailedError);
      }),
    );
  });

  it("binds the key's id, so that it can't be exchanged for another id of the same key", async () => {
    const both = encrypting({ keys: { k1: KEY, k2: KEY } });
    const sealed = Buffer.from(await both.encode(text, context));
    sealed.write("k2", 2);
    await expect(both.decode(sealed, context)).rejects.toThrow(DecryptionFailedError);
  });

  it("uses a new nonce each time: 10,000 of one text, and none twice", async () => {
    const transform = encrypting();
    const nonces = new Set<string>();
    for (let n = 0; n < 10_000; n++) {
      nonces.add(Buffer.from((await transform.encode(text, context)).subarray(4, 16)).toString("hex"));
    }
    expect(nonces.size).toBe(10_000);
  });

  it("reads by old keys and writes by the current one", async () => {
    const old = await encrypting().encode(text, context);
    const rotated = encrypting({ keys: { k1: KEY, k2: OTHER }, current: "k2" });
    expect(Buffer.from(await rotated.decode(old, context)).equals(text)).toBe(true);
    expect(rotated.isCurrent?.(old)).toBe(false);
    const fresh = await rotated.encode(text, context);
    expect(rotated.isCurrent?.(fresh)).toBe(true);
    await expect(encrypting().decode(fresh, context)).rejects.toThrow(
      `it is encrypted with the key "k2", which isn't configured (configured: k1). Add that key`,
    );
  });

  it.each([
    ["an escape sequence", "\u009b31mk1"],
    ["a control character", "k1\u001b[2J"],
    ["nothing", ""],
    ["a space", "k 1"],
    ["more than an id may have", "k".repeat(129)],
  ])("doesn't show an invalid id: %s", async (_what, id) => {
    const sealed = await encrypting().encode(text, context);
    const planted = Buffer.concat([Buffer.from([1, id.length]), Buffer.from(id, "latin1"), sealed.subarray(4)]);
    const opening = encrypting().decode(planted, context);
    await expect(opening).rejects.toThrow(/is intact, but a newer version of Waymark encrypted it/);
    await expect(opening).rejects.toMatchObject({ code: "DECRYPTION_FAILED", keyId: undefined });
  });

  it.each<[string, string, unknown]>([
    ["a key", Buffer.from(KEY).toString("hex"), "k1"],
    ["a key, beside one that is too short", Buffer.from(KEY).toString("hex"), OTHER.subarray(1)],
    ["a passphrase", "correct horse battery staple", OTHER],
  ])("doesn't show a text that may be %s passed in place of an id", (_what, id, key) => {
    const making = () => encrypt({ keys: { [id]: key as Uint8Array }, current: id });
    expect(making).toThrow(`${JSON.stringify(id.slice(0, 4))}… (${id.length} characters)`);
    expect(making).not.toThrow(id.slice(0, 5));
  });

  it("names a wrong key's id and both possible causes, wrong key and damage", async () => {
    const payload = await payloadOf({ n: 1 }, encrypting());
    const transforms = [encrypting({ keys: { k1: OTHER } })];
    const opening = openPayload(payload, { transforms, context: owner });
    await expect(opening).rejects.toThrow(
      /^Checkpoint c1 of task "t" .* key "k1" can't decrypt it.*another key.*or its record was changed/,
    );
    await expect(opening).rejects.toMatchObject({ code: "DECRYPTION_FAILED", keyId: "k1", retryable: false });
    const damaged = { ...payload, body: Buffer.from(payload.body).fill(0, 20) };
    expect(() => openPayload(damaged, { transforms: [encrypting()], context: owner })).toThrow(CheckpointCorruptError);
  });

  it("lets plain payloads through, and refuses them when encryption is required", async () => {
    const plain = await payloadOf({ n: 1 });
    const packed = await payloadOf({ n: 1 }, gzip());
    const lenient = { transforms: [gzip(), encrypting()], context: owner };
    expect((await openPayload(plain, lenient)).state).toEqual({ n: 1 });
    expect((await openPayload(packed, lenient)).state).toEqual({ n: 1 });
    const strict = { transforms: [gzip(), encrypting({ requireEncrypted: true })], context: owner };
    const long = { ...plain, encoding: `json${"+gzip".repeat(100_000)}` };
    for (const payload of [plain, packed, long]) {
      expect(() => openPayload(payload, strict)).toThrow(/^.{0,700}$/);
      expect(() => openPayload(payload, strict)).toThrow(DecryptionFailedError);
      expect(() => openPayload(payload, strict)).toThrow(/it isn't encrypted \(.*\), and requireEncrypted is set/);
    }
    const sealed = await payloadOf({ n: 1 }, ...strict.transforms);
    expect((await openPayload(sealed, strict)).state).toEqual({ n: 1 });
  });

  it("can't be tricked by another encoding into taking the inner bytes for plain ones", async () => {
    const payload = await payloadOf({ n: 1 }, gzip(), encrypting());
    for (const encoding of ["json+encrypt", "json-tagged+gzip+encrypt", "json+encrypt+gzip", "json+encrypt+encrypt"]) {
      const transforms = [gzip(), encrypting({ requireEncrypted: true })];
      const opening = (async () => openPayload({ ...payload, encoding }, { transforms, context: owner }))();
      await expect(opening, encoding).rejects.toMatchObject({
        code: expect.stringMatching(/DECRYPTION_FAILED|CHECKPOINT_CORRUPT/),
      });
    }
  });
});

describe("the options of encrypt", () => {
  it.each<[string, object, RegExp]>([
    ["no keys", { keys: {}, current: "k1" }, /current must be the id of one of the keys \(there are none\)/],
    ["keys that are none", { keys: KEY, current: "k1" }, /keys must be a plain object/],
    ["keys in a Map", { keys: new Map([["k1", KEY]]), current: "k1" }, /under each id: \{ "2026-11": key \}/],
    ["keys in an array", { keys: [KEY], current: "0" }, /keys must be a plain object/],
    [
      "keys that are still to come",
      { keys: Promise.resolve({ k1: KEY }), current: "k1" },
      /keys must be a plain object/,
    ],
    ["keys that are missing", { current: "k1" }, /keys must be a plain object/],
    [
      "a key that is still to come",
      { keys: { k1: Promise.resolve(KEY) }, current: "k1" },
      /or a function that returns them/,
    ],
    ["a current key that isn't there", { keys: { k1: KEY }, current: "k2" }, /one of the keys \(k1\)/],
    ["a current key from Object", { keys: { k1: KEY }, current: "toString" }, /one of the keys \(k1\)/],
    ["a misspelled one", { keys: { k1: KEY }, current: "k1", require: true }, /has no "require"/],
    ["text for a key", { keys: { k1: "abcdefgh" }, current: "k1" }, /"k1" must be 32 bytes.*keyFromPassphrase/],
    [
      "a key that is too short",
      { keys: { k1: KEY.subarray(16) }, current: "k1" },
      /"k1" has 16 bytes; AES-256 needs 32/,
    ],
    ["an id with a space", { keys: { "k 1": KEY }, current: "k 1" }, /"k 1" can.t be a key.s id/],
    ["no boolean", { keys: { k1: KEY }, current: "k1", requireEncrypted: 1 }, /must be true or false/],
  ])("are refused: %s", (_what, options, message) => {
    expect(() => encrypt(options as EncryptOptions)).toThrow(message);
    try {
      encrypt(options as EncryptOptions);
    } catch (error) {
      expect(inspect(error)).not.toContain("abcdefgh");
    }
  });

  it("copies a key's bytes, so that the caller may wipe them", async () => {
    const bytes = KEY.slice();
    const transform = encrypting({ keys: { k1: bytes } });
    bytes.fill(0);
    expect(Buffer.from(await encrypting().decode(await transform.encode(text, context), context)).equals(text)).toBe(
      true,
    );
  });
});
