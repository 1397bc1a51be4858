import { readFileSync } from "node:fs";
import ts from "typescript";
import { expect, it } from "vitest";
import { listSourceFiles, resolveImports } from "../support/source-files.js";

/**
 * What the files of each part may import besides each other. A file belongs to the part with the longest name that it begins
 * with: `systems` means the files next to the systems' folders. Only the imports that exist are listed.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  // The foundation, from the ground up.
  "src/contract": [],
  "src/codec": ["src/contract"],
  "src/manager": ["src/contract", "src/codec"],
  "src/runs": ["src/contract", "src/codec", "src/manager"],
  "src/checkpoint-manager.ts": ["src/contract", "src/codec", "src/manager", "src/runs"],
  "src/index.ts": ["src/contract", "src/codec", "src/manager", "src/runs", "src/checkpoint-manager.ts"],
  "src/adapter.ts": ["src/contract", "src/codec"],
  // The storages and their suite. No storage imports another one's files, except for how to make and sync folders.
  conformance: ["src/contract"],
  "adapters/memory.ts": ["src/contract"],
  "adapters/files": ["src/contract"],
  "adapters/sql": ["src/contract"],
  "adapters/postgres": ["src/contract", "adapters/sql"],
  "adapters/sqlite": ["src/contract", "adapters/sql", "adapters/files/file-io.ts"],
  "adapters/storage-url.ts": ["src/contract"],
  "adapters/index.ts": [
    ...["src/contract", "adapters/storage-url.ts", "adapters/memory.ts", "adapters/files/json-file.ts"],
    ...["adapters/files/task-file.ts", "adapters/postgres/postgres.ts", "adapters/sqlite/sqlite.ts"],
  ],
  // These are on one level: none imports another one or a system.
  config: [
    ...["src/contract", "src/manager", "src/checkpoint-manager.ts"],
    ...["adapters/index.ts", "adapters/memory.ts", "adapters/storage-url.ts"],
  ],
  testing: ["src/contract", "src/manager", "src/runs", "src/checkpoint-manager.ts", "adapters/memory.ts"],
  telemetry: ["src/contract", "src/manager/tracing.ts"],
  // The systems: none imports another one.
  systems: ["src/contract", "adapters/files"],
  "systems/builds": ["src/contract", "src/codec", "src/manager", "adapters/sql", "adapters/sqlite"],
  "systems/langgraph": ["src/contract", "src/codec", "src/manager", "src/checkpoint-manager.ts"],
  "systems/oneshot": ["src/contract", "adapters/files", "systems"],
  "systems/phase-checkpoints": ["src/contract", "src/codec", "src/manager", "adapters/files", "systems"],
  "systems/prp": ["src/contract", "src/manager", "src/checkpoint-manager.ts", "adapters/files/task-file.ts", "systems"],
  "systems/kit.ts": [
    ...["src/contract", "src/manager", "src/runs", "adapters/files", "systems", "systems/oneshot", "systems/prp"],
  ],
  // The other packages import published entries.
  "runners/src": ["waymark/kit"],
  "runners/src/processes": ["waymark/kit"],
  "runners/src/prp": [
    ...["runners/src", "runners/src/coders", "runners/src/processes"],
    ...["waymark", "waymark/adapters/task-file", "waymark/kit", "waymark/prp"],
  ],
  "runners/src/coders": ["runners/src/processes", "waymark/kit"],
  "runners/src/plans": [
    ...["runners/src", "runners/src/coders", "runners/src/processes", "runners/src/prp", "waymark", "waymark/kit"],
  ],
  "runners/src/oneshot": ["runners/src", "runners/src/processes", "waymark", "waymark/kit", "waymark/oneshot"],
  "cli/src": [
    ...["cli/src/queries", "cli/src/actions", "cli/src/ui", "waymark", "waymark/adapter", "waymark/adapters"],
    ...["waymark/adapters/postgres", "waymark/config", "waymark/kit", "waymark/langgraph/records", "waymark/oneshot"],
    ...["waymark/prp", "waymark-runners/oneshot", "waymark-runners/plans", "waymark-runners/prp"],
  ],
  "cli/src/queries": ["cli/src", "waymark", "waymark/adapter", "waymark/kit", "waymark/langgraph/records"],
  "cli/src/actions": [
    ...["cli/src", "cli/src/queries", "waymark", "waymark/adapter", "waymark/kit", "waymark/langgraph/records"],
  ],
  "cli/src/ui": [
    ...["cli/src", "cli/src/queries", "cli/src/actions"],
    ...["waymark", "waymark/adapter", "waymark/kit", "waymark/langgraph/records"],
  ],
  // The page runs in a browser.
  "cli/page/src": [
    ...["cli/src/ui/api-choices.ts", "cli/src/ui/api-inbox.ts"],
    ...[
      "cli/src/usage.ts",
      "cli/src/words.ts",
      "cli/src/ui/api.ts",
      "cli/src/ui/api-actions.ts",
      "cli/src/ui/api-parts.ts",
    ],
    ...["cli/src/ui/api-runs.ts", "cli/src/ui/api-states.ts", "cli/src/ui/api-storage.ts", "cli/src/ui/api-tasks.ts"],
  ],
};

const FOLDERS = [
  ...["src", "adapters", "conformance", "config", "testing", "telemetry", "systems"],
  ...["runners/src", "cli/src", "cli/page/src"],
];
const arrows = FOLDERS.flatMap((folder) => listSourceFiles(folder)).flatMap((from) =>
  resolveImports(from, readFileSync(from, "utf8"))
    .filter((to) => to.includes(".ts") || /^waymark\b/.test(to))
    .map((to) => ({ from, to })),
);

it("each part imports only what it may, types included", () => {
  expect(arrows.filter(({ from, to }) => !mayImport(from, to))).toEqual([]);
});

it("the table lists what is imported, and nothing else", () => {
  const listed = Object.entries(MAY_IMPORT).flatMap(([part, targets]) => targets.map((target) => ({ part, target })));
  const isUsed = ({ part, target }: { part: string; target: string }) =>
    arrows.some(({ from, to }) => findPart(from) === part && (to === target || findPart(to) === target));
  expect(listed.filter((row) => !isUsed(row))).toEqual([]);
});

it.each([
  ["src/codec/a.ts", "src/manager/options.ts"],
  ["src/manager/a.ts", "src/runs/run.ts"],
  ["src/runs/a.ts", "src/checkpoint-manager.ts"],
  ["conformance/a.ts", "adapters/memory.ts"],
  ["adapters/memory.ts", "adapters/files/store.ts"],
  ["adapters/files/a.ts", "adapters/sql/rows.ts"],
  ["adapters/sqlite/a.ts", "adapters/files/lock.ts"],
  ["adapters/sqlite/a.ts", "adapters/postgres/schema.ts"],
  ["adapters/postgres/a.ts", "adapters/files/file-io.ts"],
  ["adapters/postgres/a.ts", "src/codec/json.ts"],
  ["config/a.ts", "testing/index.ts"],
  ["config/a.ts", "systems/json-object.ts"],
  ["testing/a.ts", "config/index.ts"],
  ["testing/a.ts", "systems/prp/index.ts"],
  ["telemetry/a.ts", "src/manager/writer.ts"],
  ["systems/prp/a.ts", "systems/oneshot/index.ts"],
  ["systems/json-object.ts", "systems/prp/index.ts"],
  ["systems/langgraph/a.ts", "systems/json-object.ts"],
  ["systems/builds/a.ts", "systems/kit.ts"],
  ["systems/prp/a.ts", "waymark"],
  ["runners/src/processes/a.ts", "runners/src/prp/index.ts"],
  ["runners/src/oneshot/a.ts", "systems/run-lock.ts"],
  ["cli/src/a.ts", "waymark/builds"],
  ["cli/src/queries/a.ts", "cli/src/actions/prune.ts"],
  ["cli/page/src/a.ts", "cli/src/store.ts"],
  ["cli/page/src/a.ts", "waymark"],
])("%s may not import %s", (from, to) => expect(mayImport(from, to)).toBe(false));

function mayImport(from: string, to: string): boolean {
  const own = findPart(from);
  const target = findPart(to);
  return own !== undefined && (target === own || [to, target].some((name) => name && MAY_IMPORT[own]?.includes(name)));
}

function findPart(file: string): string | undefined {
  const parts = Object.keys(MAY_IMPORT).filter((part) => file === part || file.startsWith(`${part}/`));
  return parts.toSorted((a, b) => b.length - a.length)[0];
}

/** The files that may read real time and randomness: the port, and encryption, whose nonces must be unpredictable. */
const WORLD = /^src\/(contract\/runtime|codec\/envelope)\.ts$/;

it("time, timers and chance reach src through the port alone", () => {
  const files = listSourceFiles("src").filter((file) => !WORLD.test(file));
  expect(files.flatMap((file) => findWorld(file, readFileSync(file, "utf8")))).toEqual([]);
});

it.each([
  'import { setTimeout as pause } from "node:timers/promises";',
  'import { performance } from "node:perf_hooks";',
  'import { randomUUID } from "node:crypto";',
  "const nowMs = Date.now();",
  "const now = new Date();",
  "globalThis.setTimeout(call, 1);",
  "const clock = options.clock ?? Date.now;",
  "setInterval(() => tick(), 5);",
  "process.hrtime.bigint();",
  "AbortSignal.timeout(5);",
])("the check finds %s", (text) => expect(findWorld("src/runs/a.ts", text)).toHaveLength(1));

it.each(["new Date(0);", "// setTimeout(call, 5)", "runtime.setTimeout(call, 5);", 'const text = "Date.now()";'])(
  "the check passes %s",
  (text) => expect(findWorld("src/runs/a.ts", text)).toEqual([]),
);

/** Returns the places of a file that use the real time, a timer or a random number. */
function findWorld(file: string, text: string): readonly string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (isWorld(node)) found.push(`${file}: ${node.getText()}`);
    else ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  return found;
}

const GLOBALS = /^(set|clear)(Timeout|Interval|Immediate)$|^performance$/;
const MEMBERS = /^(Date\.now|Math\.random|AbortSignal\.timeout|process\.hrtime|crypto\.random\w+)$/;

function isWorld(node: ts.Node): boolean {
  if (ts.isImportSpecifier(node)) return /^random(UUID|Bytes|Int)$/.test((node.propertyName ?? node.name).text);
  if (ts.isImportDeclaration(node))
    return /^"(node:)?(timers(\/promises)?|perf_hooks)"$/.test(node.moduleSpecifier.getText());
  if (ts.isNewExpression(node)) return node.expression.getText() === "Date" && !node.arguments?.length;
  if (ts.isPropertyAccessExpression(node)) {
    const isGlobal = node.expression.getText() === "globalThis" && GLOBALS.test(node.name.text);
    return isGlobal || MEMBERS.test(node.getText());
  }
  // A call of a global function, or the function itself. A member with such a name belongs to an object.
  return ts.isIdentifier(node) && GLOBALS.test(node.text) && isValue(node);
}

function isValue(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent)) return parent.expression === node;
  return ts.isExpression(parent) || ts.isVariableDeclaration(parent);
}
