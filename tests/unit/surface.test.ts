import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { expect, it } from "vitest";
import * as root from "waymark";
import * as adapter from "waymark/adapter";
import * as kit from "waymark/kit";
import * as retention from "../../src/manager/retention-plan.js";

/** Returns the names that a file exports, including types. */
function namesIn(file: string): string[] {
  const text = readFileSync(join(import.meta.dirname, "..", "..", file), "utf8");
  return ts.createSourceFile(file, text, ts.ScriptTarget.Latest).statements.flatMap((statement) => {
    if (ts.isExportDeclaration(statement)) {
      if (statement.exportClause === undefined || !ts.isNamedExports(statement.exportClause)) {
        throw new Error(`${file} exports names that it doesn't list.`);
      }
      return statement.exportClause.elements.map(({ name }) => name.text);
    }
    if (ts.isImportDeclaration(statement)) return [];
    if (ts.isFunctionDeclaration(statement) && statement.name !== undefined) return [statement.name.text];
    throw new Error(`${file} has a statement that is neither a list of exports nor a function.`);
  });
}

it.each([
  ["waymark", "src/index.ts", root, 80],
  ["waymark/adapter", "src/adapter.ts", adapter, 60],
  ["waymark/kit", "systems/kit.ts", kit, 50],
])("%s exports no more names than it may", (_entry, file, exported, most) => {
  const names = namesIn(file);
  expect(names).toEqual(expect.arrayContaining(Object.keys(exported)));
  expect(new Set(names).size).toBe(names.length);
  expect(names.length, `${names.length} names: ${names.join(", ")}`).toBeLessThanOrEqual(most);
});

it("the root doesn't export internals of the manager", () => {
  const internals = { ...retention, ...adapter };
  for (const internal of ["explainOutdated", "checkRetentionPolicy", "sealDraft", "nextSequence"]) {
    expect(internals).toHaveProperty(internal);
    expect(namesIn("src/index.ts")).not.toContain(internal);
  }
});

it("an adapter's author finds all of the contract in waymark/adapter", () => {
  expect(Object.keys(adapter)).toEqual(
    expect.arrayContaining(["nextSequence", "sealDraft", "withStatus", "matchRetry", "sealRecordDraft", "makePayload"]),
  );
});
