import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import type { StorageAdapter } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { newSchema, openAdapter } from "../support/postgres.js";
import { SEED } from "../support/seeded.js";
import { tempFolder } from "../support/temp-folder.js";
import { count } from "./counts.js";
import { tenth } from "./extent.js";
import { type Call, perform } from "./operations.js";

const KILLS = tenth === undefined ? 60 : 20;

it(`sqlite: histories keep what they have, whenever a process is killed (WAYMARK_SEED=${SEED})`, {
  timeout: 300_000,
}, async () => {
  const url = `sqlite:${await tempFolder()}/store.db`;
  await killAtRandom({ url, schema: "" }, () => openStorage(url));
});

it(`postgres: histories keep what they have, whenever a process is killed (WAYMARK_SEED=${SEED})`, {
  timeout: 300_000,
}, async () => {
  const place = await newSchema();
  await killAtRandom(place, () => openAdapter(place));
});

async function killAtRandom(place: { url: string; schema: string }, open: () => StorageAdapter): Promise<void> {
  const model = new MemoryAdapter();
  let calls = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    const done: Call[] = [];
    let begun: Call | undefined;
    const args = [place.url, place.schema, String(SEED + kill)];
    const child = spawn(process.execPath, [fileURLToPath(new URL("random-calls.mjs", import.meta.url)), ...args]);
    const stderr = text(child.stderr);
    const closed = once(child, "close");
    const wanted = 1 + ((SEED + kill * 7919) % 90);
    for await (const line of createInterface({ input: child.stdout })) {
      if (line !== "done") begun = JSON.parse(line) as Call;
      else if (begun !== undefined) {
        done.push(begun);
        begun = undefined;
      }
      if (done.length === wanted) child.kill("SIGKILL");
    }
    await closed;
    expect(await stderr).toBe("");
    for (const call of done) await perform(model, call);
    calls += done.length;
    const storage = open();
    const found = await contentsOf(storage);
    const before = await contentsOf(model);
    // The call that the kill interrupted was made or not, and nothing in between.
    if (begun !== undefined && JSON.stringify(found) !== JSON.stringify(before)) await perform(model, begun);
    expect(found).toEqual(await contentsOf(model));
    await storage.close();
  }
  count({
    what: "calls before kills of histories",
    store: place.url.split(":")[0] ?? "",
    operation: "any",
    tried: calls,
    lost: 0,
  });
}

async function contentsOf(storage: StorageAdapter): Promise<unknown[]> {
  const all: unknown[] = [];
  for (const taskId of ["one", "two"]) {
    for await (const one of storage.read({ taskId, order: "oldest" })) {
      all.push(isCorrupt(one) ? one.reason : [taskId, one.sequence, one.id, one.payload.sha256, one.payload.body]);
    }
  }
  return all;
}
