import { expect, it } from "vitest";
import { makeWhole, TextCache } from "../../../../adapters/sql/history.js";

const MB = 1024 * 1024;

function textOf(bytes: number) {
  return { ...makeWhole(Buffer.alloc(bytes)).text, number: 1, sha256: "" };
}

it("remembers the most recently used texts, up to 32 MB", () => {
  const cached = new TextCache<string>();
  for (const key of ["a", "b", "c"]) cached.set(key, textOf(10 * MB));
  cached.set("a", textOf(11 * MB));
  cached.set("d", textOf(5 * MB));
  expect(["a", "b", "c", "d"].filter((key) => cached.get(key))).toEqual(["a", "c", "d"]);
});

it("remembers a single larger text, and nothing beside it", () => {
  const cached = new TextCache<string>();
  cached.set("a", textOf(1));
  cached.set("b", textOf(33 * MB));
  expect(["a", "b"].filter((key) => cached.get(key))).toEqual(["b"]);
  cached.set("a", textOf(1));
  expect(["a", "b"].filter((key) => cached.get(key))).toEqual(["a"]);
});
