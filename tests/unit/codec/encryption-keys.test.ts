import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { encrypt } from "../../../src/codec/encrypt.js";
import { keyFromPassphrase } from "../../../src/codec/encryption-keys.js";

const PASSPHRASE = "correct horse battery staple";
const SALT = "5f0c1b7e9d3a4f60";
/** The result of Node's scryptSync for {@link SALT} and "schöne grüße aus köln" with N = 2^17, r = 8 and p = 1. */
const KEY = "0d57234cba48e5335dbcafb18651a5739e6ac0ef824885f3b038821a3c9fe931";
const context = { taskId: "t", id: "c1", stateVersion: 1, encoding: "json+encrypt" };
const text = Buffer.from("{}");

describe("a key from a passphrase", () => {
  it("comes from scrypt with N = 2^17, r = 8 and p = 1, as OWASP asks for, without blocking the event loop", async () => {
    const decomposed = "schöne grüße aus köln".normalize("NFD");
    const key = keyFromPassphrase(decomposed, { salt: Buffer.from(SALT) })();
    expect(await Promise.race([key, nextTurn("the next turn")])).toBe("the next turn");
    expect(Buffer.from(await key).toString("hex")).toBe(KEY);
  });

  it.each<[string, unknown, object, RegExp]>([
    ["too short", "swordfish", { salt: SALT }, /at least 15 characters/],
    ["blank", " ".repeat(40), { salt: SALT }, /at least 15 characters, not counting white space/],
    ["padded with spaces", `swordfish${"\u00a0".repeat(40)}`, { salt: SALT }, /at least 15 characters/],
    ["empty", "", { salt: SALT }, /at least 15 characters/],
    ["no text", 42, { salt: SALT }, /passphrase must be a string, not number/],
    ["without salt", PASSPHRASE, {}, /salt must be text or bytes/],
    ["with a short salt", PASSPHRASE, { salt: "pepper" }, /at least 16 bytes; this one has 6/],
    ["cheaper than is safe", PASSPHRASE, { salt: SALT, cost: 2 ** 16 }, /cost must be a whole number from 131072/],
    ["at a cost that is no power of two", PASSPHRASE, { salt: SALT, cost: 2 ** 17 + 1 }, /power of two/],
    ["at a cost beyond memory", PASSPHRASE, { salt: SALT, cost: 2 ** 30 }, /power of two from 131072 to 4194304/],
    ["misspelled", PASSPHRASE, { salt: SALT, cots: 1 }, /has no "cots"/],
  ])("is refused when it is made: %s", (_what, passphrase, options, message) => {
    const make = () => keyFromPassphrase(passphrase as string, options as { salt: string });
    expect(make).toThrow(message);
    expect(make).not.toThrow(new RegExp(`${PASSPHRASE}|swordfish`));
  });
});

describe("a key from a function", () => {
  const bytes = new Uint8Array(32).fill(7);

  it("is fetched at its first use, once for all concurrent uses, and kept", async () => {
    let fetched = 0;
    let others = 0;
    const transform = encrypt({
      keys: {
        kms: async () => {
          fetched += 1;
          return bytes;
        },
        unused: () => {
          others += 1;
          return bytes;
        },
      },
      current: "kms",
    });
    expect(fetched).toBe(0);
    const sealed = await Promise.all([1, 2, 3].map(async () => transform.encode(text, context)));
    for (const one of sealed) await transform.decode(one, context);
    expect([fetched, others]).toEqual([1, 0]);
  });

  it("that fails is a retryable KeyUnavailableError with the cause, and is asked again by the next call", async () => {
    const down = new Error("the KMS is down");
    let calls = 0;
    const key = () => {
      calls += 1;
      if (calls <= 2) throw down;
      return bytes;
    };
    const transform = encrypt({ keys: { kms: key }, current: "kms" });
    for (let n = 0; n < 2; n++) {
      await expect(transform.encode(text, context)).rejects.toMatchObject({
        code: "KEY_UNAVAILABLE",
        keyId: "kms",
        retryable: true,
        cause: down,
      });
    }
    await transform.decode(await transform.encode(text, context), context);
    expect(calls).toBe(3);
  });

  it.each<[string, unknown, RegExp]>([
    ["too few bytes", new Uint8Array(16), /returned 16 bytes; AES-256 needs 32/],
    ["text", "abcdefgh", /returned something of type string/],
    ["nothing", undefined, /returned something of type undefined/],
  ])("that gives %s is a KeyUnavailableError that isn't retryable", async (_what, given, message) => {
    const transform = encrypt({ keys: { kms: () => given as Uint8Array }, current: "kms" });
    const encoding = transform.encode(text, context);
    await expect(encoding).rejects.toThrow(message);
    await expect(encoding).rejects.toMatchObject({ code: "KEY_UNAVAILABLE", retryable: false });
    await expect(encoding).rejects.not.toThrow(/abcdefgh/);
  });
});
