import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { conformanceCases } from "waymark/conformance";

const CONTRACT = new URL("../../src/contract/", import.meta.url);

it("has every case that the contract names", () => {
  const contract = readdirSync(CONTRACT).map((file) => readFileSync(new URL(file, CONTRACT), "utf8"));
  const named = [...contract.join("").matchAll(/\(cases?: ([^)]+)\)/g)].flatMap(
    ([, names = ""]) => names.match(/[a-z]+\.[a-z-]+/g) ?? [],
  );
  const names = conformanceCases.map(({ name }) => name);
  // Checks one case of each file that names cases.
  expect(named).toEqual(expect.arrayContaining(["append.atomic", "leases.fencing", "verify.finds"]));
  expect(named.filter((name) => !names.includes(name))).toEqual([]);
});

it("has each case once", () => {
  const names = conformanceCases.map(({ name }) => name);
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});
