import { hash } from "node:crypto";
import { constants, deflateRawSync } from "node:zlib";
import { expect } from "vitest";
import type { StorageAdapter } from "waymark";
import { findDamage, isCorrupt } from "waymark/adapter";
import { draft } from "../../conformance/drafts.js";
import { transientMetadata } from "../../src/contract/transient.js";

/** Yields texts whose words repeat like the words of a language. Each run gets the same texts. */
export function* messages(bytes: number): Generator<string, never> {
  for (let seed = 1; ; ) {
    let text = "";
    while (text.length < bytes) {
      seed = (seed * 48_271) % 2_147_483_647;
      text += `${((seed % 1000) ** 2 * 97).toString(36)} `;
    }
    yield text.slice(0, bytes);
  }
}

/** Yields states of an agent. Each state has one more message of `bytes` bytes. */
export function* turns(bytes = 500): Generator<string, never> {
  const texts = messages(bytes);
  for (const all: string[] = []; ; ) {
    all.push(texts.next().value);
    yield JSON.stringify({ messages: all, turn: all.length });
  }
}

export async function saveTurns(adapter: StorageAdapter, count: number, bytes?: number): Promise<readonly string[]> {
  const bodies = [...take(turns(bytes), count)];
  for (const [index, body] of bodies.entries()) await adapter.append(draft("t", `c${index + 1}`, { body }));
  return bodies;
}

export function* take(items: Iterator<string, never>, count: number): Generator<string> {
  for (let taken = 0; taken < count; taken++) yield items.next().value;
}

export async function bodyOf(adapter: StorageAdapter, taskId: string, id: string): Promise<string> {
  const found = await adapter.get(taskId, id);
  if (found === undefined || isCorrupt(found)) return String(found?.reason);
  expect(findDamage(found)).toBeUndefined();
  return String(found.payload.body);
}

/** Returns the state of the newest checkpoint of "t", as text. */
export async function newest(adapter: StorageAdapter): Promise<unknown> {
  for await (const found of adapter.read({ taskId: "t", order: "newest", limit: 1 })) {
    return isCorrupt(found) ? found.reason : found.payload.body;
  }
  return undefined;
}

/** Returns a piece's body that unpacks to 300 MB of zeros. Brotli takes some 5 s to make it. */
export function hugePacked(): Buffer {
  return Buffer.from(
    "z///fwAkAOKxQHLv//n//w+ABEAcFoDu/T////8BkACIwwLQvf/n//8/ABIAcVgAuvf//P//B0ACIA4LQPf+n////wBIAMRhAeje" +
      "//P//x8ACYA4LADd+3/+//8DIAEQhwWge//P//9/ACQA4rAAdO//+f//D4AEQBwWgO79P////wGQAIjDAtC9/+f//z8AEgBxWAC6" +
      "9//8//8HQAIgDgtA9/6f////AEgAxGEB6N7/8///HwAJgDgsAN37f/7//wMgARCHBaB7/8///38AJADisAB07//5//8PgARAHBaA" +
      "7v1//v//ApAAiMMC0L3/BQ==",
    "base64",
  );
}

/** Returns a deflated piece's body of some 600 KB that inflates to 600 MB. */
export function hugeDeflated(): Buffer {
  const part = deflateRawSync(Buffer.alloc(1024 * 1024), { finishFlush: constants.Z_FULL_FLUSH });
  return Buffer.concat([...Array.from({ length: 600 }, () => part), deflateRawSync("")]);
}

/**
 * Saves transient checkpoints of a task, each of which replaces the previous checkpoint. Most states change a little,
 * and some change completely. Returns the last state.
 */
export async function saveReplacing(adapter: StorageAdapter, count: number): Promise<string> {
  let body = "";
  for (let save = 1; save <= count; save++) {
    const part = hash("sha512", `${Math.floor(save / 25)}`, "hex");
    body = JSON.stringify([
      Array.from({ length: 100 }, (_, number) => hash("sha512", `${part} ${number}`, "hex")),
      save,
    ]);
    const [metadata, replaces] = [transientMetadata(`p${save - 1}`), `p${save - 1}`];
    await adapter.append(draft("t", `p${save}`, { body, metadata }), {}, { replaces });
  }
  return body;
}
