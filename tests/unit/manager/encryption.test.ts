// Tests encryption by a manager on every adapter.
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import {
  CheckpointManager,
  type CheckpointManagerOptions,
  DecryptionFailedError,
  encrypt,
  gzip,
  keyFromPassphrase,
  type StorageAdapter,
} from "waymark";
import { isCorrupt } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";

const KEY = randomBytes(32);
const OTHER = randomBytes(32);
const SECRET = "the eagle has landed";
const encrypted = (key: Uint8Array = KEY) => [gzip(), encrypt({ keys: { k1: key }, current: "k1" })];

const STORAGES: Record<string, (folder: string) => StorageAdapter | Promise<StorageAdapter>> = {
  memory: () => new MemoryAdapter(),
  "json-file": (folder) => openStorage(`files:${join(folder, "store")}`),
  "task-file": (folder) => openStorage(`tasks:${join(folder, "store")}`),
  sqlite: (folder) => openStorage(`sqlite:${join(folder, "store.db")}`),
};

function managerOn(storage: StorageAdapter, options: Partial<CheckpointManagerOptions> = {}) {
  return new CheckpointManager({ storage, ownsStorage: false, transforms: encrypted(), ...options });
}

async function failureOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** Returns every byte of every file below a folder. */
function bytesIn(folder: string): string {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return entries.map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1")).join("\n");
}

describe.each(Object.entries(STORAGES))("encrypted checkpoints in %s", (_name, open) => {
  it("come back as they were saved, and no part of the state is readable in the store", async () => {
    const folder = await tempFolder();
    const storage = await open(folder);
    const state = { secret: SECRET, at: new Date(5), tags: new Set(["x"]) };
    const { id } = await managerOn(storage).save("t", state, { stage: "gate", label: "open" });
    expect((await managerOn(storage).latest("t"))?.state).toEqual(state);
    expect((await managerOn(storage).restore("t", id)).label).toBe("open");
    for await (const { state: each } of managerOn(storage).history("t")) expect(each).toEqual(state);
    await storage.close();
    expect(bytesIn(folder)).not.toContain(SECRET);
  });

  it("are not skipped if the key is wrong or missing: latest, restore and history throw", async () => {
    const storage = await open(await tempFolder());
    await managerOn(storage, { transforms: [] }).save("t", { plain: true });
    const { id } = await managerOn(storage).save("t", { n: 1 });
    const corrupt: unknown[] = [];
    const wrong = managerOn(storage, { transforms: encrypted(OTHER) });
    wrong.on("corrupt", (record) => corrupt.push(record));
    await expect(wrong.latest("t")).rejects.toThrow(DecryptionFailedError);
    await expect(wrong.restore("t", id)).rejects.toMatchObject({ code: "DECRYPTION_FAILED", keyId: "k1" });
    await expect(wrong.history("t").next()).rejects.toThrow(DecryptionFailedError);
    await expect(managerOn(storage, { transforms: [] }).latest("t")).rejects.toMatchObject({
      code: "UNSUPPORTED_FORMAT",
    });
    expect(corrupt).toEqual([]);
    expect(await wrong.list("t")).toHaveLength(2);
    await storage.close();
  });

  it("can't be moved to another checkpoint, even with a new seal", async () => {
    const storage = await open(await tempFolder());
    const { id } = await managerOn(storage).save("t", { n: 1 }, { stage: "gate" });
    const record = await storage.get("t", id);
    if (record === undefined || isCorrupt(record)) throw new Error("It isn't there.");
    const { sequence: _sequence, seal: _seal, ...draft } = record;
    await storage.append({ ...draft, taskId: "u" });
    await storage.append({ ...draft, id: "another" });
    await storage.append({ ...draft, id: "third", stage: "gate-2" });
    await expect(managerOn(storage).latest("u")).rejects.toThrow(DecryptionFailedError);
    await expect(managerOn(storage).restore("t", "another")).rejects.toThrow(DecryptionFailedError);
    await expect(managerOn(storage).latest("t")).rejects.toThrow(DecryptionFailedError);
    expect((await managerOn(storage).restore("t", id)).state).toEqual({ n: 1 });
    await storage.close();
  });

  it("cause plain ones to be refused if encryption is required", async () => {
    const storage = await open(await tempFolder());
    await managerOn(storage, { transforms: [] }).save("t", { planted: true });
    const strict = managerOn(storage, {
      transforms: [encrypt({ keys: { k1: KEY }, current: "k1", requireEncrypted: true })],
    });
    await expect(strict.latest("t")).rejects.toThrow(/requireEncrypted is set/);
    await strict.save("t", { planted: false });
    expect((await strict.latest("t"))?.state).toEqual({ planted: false });
    await storage.close();
  });
});

describe("keys", () => {
  /** The forms in which bytes might be shown. */
  const formsOf = (bytes: Buffer) => [
    bytes.toString("hex"),
    bytes.toString("base64"),
    bytes.toString("base64url"),
    bytes.toString("latin1"),
    bytes.toString("utf8"),
    [...bytes].join(","),
    [...bytes].join(", "),
    [...bytes.subarray(0, 4)].join(", "),
    [...bytes.subarray(0, 4)].map((byte) => byte.toString(16).padStart(2, "0")).join(" "),
  ];
  const everything = {
    depth: Number.POSITIVE_INFINITY,
    showHidden: true,
    getters: true,
    maxArrayLength: null,
  } as const;

  it("causes a log message that states are stored whole", () => {
    const logger = recordingLogger();
    new CheckpointManager({ storage: new MemoryAdapter(), transforms: encrypted(), logger });
    new CheckpointManager({ storage: new MemoryAdapter(), logger });
    expect(logger.lines).toMatchObject([
      { level: "info", details: { transforms: ["gzip", "encrypt"] }, message: expect.stringContaining("stored whole") },
    ]);
  });

  it("never show: not when inspected, not as JSON, not in errors, not in the log", async () => {
    const passphrase = "a passphrase that nobody guesses";
    const options = {
      keys: {
        bytes: KEY,
        fetched: async () => OTHER,
        derived: keyFromPassphrase(passphrase, { salt: "x".repeat(16) }),
      },
    };
    const shown: string[] = [];
    const show = (value: unknown) => shown.push(inspect(value, everything), JSON.stringify(value) ?? "", String(value));
    const logger = recordingLogger();
    for (const current of ["bytes", "fetched", "derived"]) {
      const storage = new MemoryAdapter();
      const transform = encrypt({ ...options, current });
      const manager = new CheckpointManager({ storage, transforms: [transform], logger });
      show(manager);
      await manager.save("t", { n: 1 });
      show(await manager.latest("t"));
      for (const thing of [manager, transform, storage, transform.encode, transform.decode, transform.isCurrent])
        show(thing);
      const wrong = new CheckpointManager({
        storage,
        transforms: [encrypt({ keys: { [current]: randomBytes(32) }, current })],
        logger,
      });
      const missing = new CheckpointManager({ storage, transforms: [encrypt({ keys: { k: KEY }, current: "k" })] });
      for (const each of [wrong, missing]) show(await each.latest("t").catch((error: unknown) => error));
    }
    const bad = [
      { keys: { k: KEY.subarray(1) }, current: "k" },
      { keys: { k: KEY.toString("hex") }, current: "k" },
      { keys: { k: KEY }, current: KEY.toString("hex").slice(0, 0) },
      { keys: KEY, current: "k" },
    ];
    for (const one of bad) {
      try {
        encrypt(one as never);
      } catch (error) {
        show(error);
      }
    }
    // A function's wrong result may be nearly a key, so it must not be shown.
    const almost: unknown[] = [KEY.subarray(1), KEY.toString("hex"), { key: KEY }, [...KEY], Buffer.concat([KEY, KEY])];
    for (const given of almost) {
      const transforms = [encrypt({ keys: { k: async () => given as Uint8Array }, current: "k" })];
      const manager = new CheckpointManager({ storage: new MemoryAdapter(), transforms, logger });
      manager.on("autoSaveFailed", show);
      for (let failure: unknown = await failureOf(manager.save("t", {})); failure; failure = Object(failure).cause) {
        show(failure);
      }
      const autoSave = manager.autoSave("t", () => ({ n: 1 }));
      show(await failureOf(autoSave.flush()));
      show(await failureOf(autoSave.stop()));
    }
    show(logger.lines);
    const all = shown.join("\n");
    expect(all).toContain("DECRYPTION_FAILED");
    expect(all).toContain("KEY_UNAVAILABLE");
    for (const form of [KEY, KEY.subarray(1), OTHER].flatMap(formsOf).concat(passphrase))
      expect(all.includes(form)).toBe(false);
  });
});
