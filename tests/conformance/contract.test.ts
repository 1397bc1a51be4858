import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { conformanceCases } from "waymark/conformance";

const CONTRACT = ["adapter", "findings"].map((name) => new URL(`../../src/contract/${name}.ts`, import.meta.url));

it("has every case that the contract names", () => {
  const contract = CONTRACT.map((file) => readFileSync(file, "utf8")).join("");
  const named = [...contract.matchAll(/\(cases?: ([^)]+)\)/g)].flatMap(
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
