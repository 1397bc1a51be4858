import { expect, it } from "vitest";
import { wholeOf } from "../../../../adapters/sql/history.js";
import { Remembered } from "../../../../adapters/sql/remembered.js";

const MB = 1024 * 1024;

function textOf(bytes: number) {
  return { ...wholeOf(Buffer.alloc(bytes)).text, number: 1, sha256: "" };
}

it("remembers the most recently used texts, up to 32 MB", () => {
  const remembered = new Remembered<string>();
  for (const key of ["a", "b", "c"]) remembered.set(key, textOf(10 * MB));
  remembered.set("a", textOf(11 * MB));
  remembered.set("d", textOf(5 * MB));
  expect(["a", "b", "c", "d"].filter((key) => remembered.get(key))).toEqual(["a", "c", "d"]);
});

it("remembers a single larger text, and nothing beside it", () => {
  const remembered = new Remembered<string>();
  remembered.set("a", textOf(1));
  remembered.set("b", textOf(33 * MB));
  expect(["a", "b"].filter((key) => remembered.get(key))).toEqual(["b"]);
  remembered.set("a", textOf(1));
  expect(["a", "b"].filter((key) => remembered.get(key))).toEqual(["a"]);
});
