// Tests payloads that are made and opened without a manager.
import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { CheckpointManager, encrypt, gzip } from "waymark";
import { findDamage, isCorrupt, makePayload } from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import { openPayload } from "../../../src/codec/payload.js";

const draft = {
  taskId: "t",
  id: "c1",
  createdAt: "2026-11-21T12:00:00.000Z",
  status: "running",
  stateVersion: 1,
} as const;

it("a payload needs no options but its checkpoint", async () => {
  const { payload, sizeBytes } = await makePayload({ n: 1 }, { context: draft });
  expect([payload, sizeBytes]).toMatchObject([{ encoding: "json", body: '{"n":1}' }, 7]);
  expect(await openPayload(payload, { context: draft })).toEqual({ state: { n: 1 } });
});

it("a manager reads checkpoints that were appended without it, and the other way round", async () => {
  const storage = new MemoryAdapter();
  const transforms = [gzip(), encrypt({ keys: { k: randomBytes(32) }, current: "k" })];
  const state = { at: new Date(7), tags: new Set(["a"]) };
  await storage.append({ ...draft, ...(await makePayload(state, { context: draft, transforms })) });

  const manager = new CheckpointManager({ storage, transforms });
  expect((await manager.latest("t"))?.state).toEqual(state);
  const saved = await manager.save("t", { n: 2 });
  const record = await storage.get("t", saved.id);
  if (record === undefined || isCorrupt(record)) throw new Error("It must be there.");
  expect(findDamage(record)).toBeUndefined();
  expect(await openPayload(record.payload, { context: record, transforms })).toEqual({ state: { n: 2 } });
});

it("a payload is opened for its own checkpoint only, and not without its transforms", async () => {
  const transforms = [encrypt({ keys: { k: randomBytes(32) }, current: "k" })];
  const { payload } = await makePayload({ n: 1 }, { context: draft, transforms });
  const opened = (async () => openPayload(payload, { context: { ...draft, id: "c2" }, transforms }))();
  await expect(opened).rejects.toMatchObject({ code: "DECRYPTION_FAILED" });
  await expect((async () => openPayload(payload, { context: draft }))()).rejects.toMatchObject({
    code: "UNSUPPORTED_FORMAT",
  });
});

it("a payload has at most `maxBytes` bytes", () => {
  expect(() => makePayload("x".repeat(9), { context: draft, maxBytes: 10 })).toThrow(/11 bytes|10 bytes/);
});
