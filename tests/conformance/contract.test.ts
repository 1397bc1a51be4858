import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { conformanceCases } from "waymark/conformance";

const CONTRACT = new URL("../../src/contract/adapter.ts", import.meta.url);

it("has every case that the contract names", () => {
  const named = [...readFileSync(CONTRACT, "utf8").matchAll(/\(cases?: ([^)]+)\)/g)].flatMap(
    ([, names = ""]) => names.match(/[a-z]+\.[a-z-]+/g) ?? [],
  );
  const names = conformanceCases.map(({ name }) => name);
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !names.includes(name))).toEqual([]);
});

it("has each case once", () => {
  const names = conformanceCases.map(({ name }) => name);
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});
