import { expect } from "vitest";
import { damageIn, isCorrupt, type StorageAdapter } from "waymark/adapter";
import { FOLD, FORM } from "../../adapters/sql/history.js";
import { draft } from "../../src/conformance/drafts.js";

/** Texts of words that repeat as those of a language do, the same ones in each run. */
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

/** States of an agent: each has one message more than the one before. */
export function* turns(): Generator<string, never> {
  const texts = messages(500);
  for (const all: string[] = []; ; ) {
    all.push(texts.next().value);
    yield JSON.stringify({ messages: all, turn: all.length });
  }
}

export async function saveTurns(adapter: StorageAdapter, count: number): Promise<readonly string[]> {
  const bodies = [...take(turns(), count)];
  for (const [index, body] of bodies.entries()) await adapter.append(draft("t", `c${index + 1}`, { body }));
  return bodies;
}

export function* take(items: Iterator<string, never>, count: number): Generator<string> {
  for (let taken = 0; taken < count; taken++) yield items.next().value;
}

export async function bodyOf(adapter: StorageAdapter, taskId: string, id: string): Promise<string> {
  const found = await adapter.get(taskId, id);
  if (found === undefined || isCorrupt(found)) return String(found?.reason);
  expect(damageIn(found)).toBeUndefined();
  return String(found.payload.body);
}

/**
 * A thousand states that each have something else after the same beginning.
 *
 * @param again - Another adapter of the same store.
 * @param forms - Those of all pieces, in order.
 */
export async function checkBranches(
  adapter: StorageAdapter,
  { again, forms }: { readonly again: StorageAdapter; readonly forms: () => Promise<readonly unknown[]> },
): Promise<void> {
  const texts = messages(500);
  const state = [...take(texts, 200)];
  const bodies = [...take(texts, 1000)].map((text) => JSON.stringify([...state, text]));
  for (const [index, body] of bodies.entries()) await adapter.append(draft("t", `c${index}`, { body }));
  const found = await forms();
  expect(found.filter((form) => form === FORM.whole)).toHaveLength(1);
  const anew = found.filter((form) => form === FORM.anew).length;
  expect(anew).toBeGreaterThan(2);
  // Each new beginning leaves one bundle before it that isn't full.
  expect(found.length).toBeLessThan(1 + 1000 / FOLD + FOLD + 2 * anew);
  for (const index of [0, 199, 200, 500, 700, 999]) {
    expect(await bodyOf(again, "t", `c${index}`)).toBe(bodies[index]);
  }
  const others = bodies.map((_, index) => `c${index}`).filter((id) => id !== "c500");
  expect(await again.remove("t", others)).toBe(999);
  expect(await bodyOf(again, "t", "c500")).toBe(bodies[500]);
  // The whole one, and what lies between two new beginnings.
  const [first, second, ...rest] = await forms();
  expect([first, second]).toEqual([FORM.whole, FORM.anew]);
  expect(rest.length).toBeLessThan(5);
}
