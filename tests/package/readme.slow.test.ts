// Runs the programs of the README and of PAGES. The compiler checks the programs of docs/security.md.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { administer, serverUrl } from "../support/postgres.js";
import { tempFolder } from "../support/temp-folder.js";

const root = join(import.meta.dirname, "..", "..");
const readme = readFileSync(join(root, "README.md"), "utf8");
const systems = readFileSync(join(root, "docs", "systems.md"), "utf8");
const configuration = readFileSync(join(root, "docs", "configuration.md"), "utf8");
const saving = readFileSync(join(root, "docs", "saving.md"), "utf8");
const PAGES = [
  "langgraph",
  "postgres",
  "runs",
  "workers",
  "waiting",
  "testing",
  "ctrl-c",
  "writing-an-adapter",
  "storages",
  "retention",
  "recipes",
  "plans",
  "coming-from",
  "AGENTS-template",
].map((page) => readFileSync(join(root, "docs", `${page}.md`), "utf8"));
const blocks = [readme, saving, systems, configuration, ...PAGES].flatMap(programsIn);
/** The programs of docs/security.md, which fetch a key from a project's own key store. */
const guide = programsIn(readFileSync(join(root, "docs", "security.md"), "utf8")).map(
  (code) => `declare function readKeyFromYourKms(): Promise<Uint8Array>;\n${code}`,
);
const { scripts, exports } = createRequire(import.meta.url)("../../package.json");

/** A key in hexadecimal. */
const KEYS = { KEY_2025: "25".repeat(32), KEY_2026: "26".repeat(32) };
/** A folder inside the project, where programs find `waymark` and the libraries like a user's program. */
let folder: string;
/** A separate database that replaces the one named in the programs. */
const database = `docs_${randomUUID().replaceAll("-", "")}`;
let server: string;

beforeAll(async () => {
  server = await serverUrl();
  await administer(server, `CREATE DATABASE ${database}`);
  mkdirSync(join(root, "coverage"), { recursive: true });
  folder = mkdtempSync(join(root, "coverage", "readme-"));
  // A PRP, and the plan that docs/systems.md has to copy.
  writeFileSync(
    join(folder, "PRP.md"),
    "# Add it up\n\n## Validation Loop\n\n### Level 1\n\n```sh\ntest 1 -eq 1\n```\n",
  );
  writeFileSync(join(folder, "plan.yaml"), /```yaml\n(.*?)```/s.exec(systems)?.[1] ?? "");
  mkdirSync(join(folder, "plan", "session-1"), { recursive: true });
  // docs/coming-from.md reads this file.
  writeFileSync(join(folder, "state.json"), JSON.stringify({ done: ["compile"] }));
  blocks.forEach((code, i) => {
    writeFileSync(join(folder, `block-${i}.mts`), code);
    // Later programs import this program.
    const [, name] = /^\/\/ (\S+)\.ts\n/.exec(code) ?? [];
    if (name === undefined) return;
    writeFileSync(join(folder, `${name}.ts`), code);
    writeFileSync(join(folder, `${name}.js`), withoutTypes(code));
  });
  guide.forEach((code, i) => {
    writeFileSync(join(folder, `guide-${i}.mts`), code);
  });
});
afterAll(async () => {
  await administer(server, `DROP DATABASE ${database}`);
  rmSync(folder, { recursive: true, force: true });
});

describe("the README", () => {
  it("shows the command that runs the main job, and the one that passes the tests", () => {
    const commands = [...readme.matchAll(/^(npm ci && npm \w+)/gm)].map(([, command]) => command);
    expect(commands).toEqual(["npm ci && npm start", "npm ci && npm test"]);
  });

  it("names only scripts, entries and files that exist", () => {
    for (const [, script] of readme.matchAll(/npm run (\w+)/g)) expect(scripts).toHaveProperty(script!);
    const entries = [...readme.matchAll(/["`](waymark\/[\w/-]+)["`]/g)].map(([, entry]) =>
      entry!.replace("waymark", "."),
    );
    expect(Object.keys(exports)).toEqual(expect.arrayContaining(entries));
    for (const [, path] of readme.matchAll(/\]\((?!https?:)([^)]+)\)/g))
      expect(() => readFileSync(join(root, path!.replace(/#.*/, "")))).not.toThrow(/ENOENT/);
  });

  it("refers to an executor that resumes, in at most 25 lines", () => {
    const executor = programsIn(configuration).find((code) => code.includes("manager.run")) ?? "";
    expect(executor).toContain("schema: Build");
    expect(executor.trim().split("\n").length).toBeLessThanOrEqual(25);
  });

  it("shows programs whose types hold", () => {
    expect([blocks.length > 0, guide.length]).toEqual([true, 2]);
    const names = [...blocks.map((_, i) => `block-${i}.mts`), ...guide.map((_, i) => `guide-${i}.mts`)].map((name) =>
      join(folder, name),
    );
    const { options } = ts.convertCompilerOptionsFromJson(
      JSON.parse(readFileSync(join(root, "tsconfig.json"), "utf8")).compilerOptions,
      root,
    );
    const program = ts.createProgram(names, { ...options, paths: {}, noEmit: true, skipLibCheck: true });
    const messages = ts
      .getPreEmitDiagnostics(program)
      .map(({ messageText, file }) => [file?.fileName, ts.flattenDiagnosticMessageText(messageText, "\n")]);
    expect(messages).toEqual([]);
  });

  it.each([
    ["README.md", readme, ["It arrives on Friday.\n", "It arrives on Friday.\n"]],
    ["docs/saving.md", saving, ["starting\n", "build-42 is completed: nothing to do\n"]],
  ])("the first program of %s prints the same or less when its task is completed", (_page, text, printed) => {
    const script = join(folder, "first.mjs");
    const [first = ""] = programsIn(text);
    const file = join(folder, `${randomUUID()}.db`);
    writeFileSync(script, withoutTypes(first.replace(".waymark/checkpoints.db", file)));
    const run = () => execFileSync(process.execPath, [script], { cwd: folder, encoding: "utf8" });
    expect([run(), run()]).toEqual(printed);
  });

  it.each(blocks.map((code, i) => [code.split("\n").find((line) => line.includes("waymark")) ?? "", i] as const))(
    "shows a program that runs: %s",
    async (_line, i) => {
      const script = join(folder, `block-${i}.mjs`);
      const url = Object.assign(new URL(server), { pathname: database });
      const code = blocks[i]!.replaceAll("postgres://app:password@localhost:5432/app", url.href);
      writeFileSync(script, withoutTypes(code));
      const PATH = `${folder}:${process.env["PATH"]}`;
      const env = { ...process.env, ...KEYS, PATH, TMPDIR: await tempFolder(), NODE_TEST_CONTEXT: undefined };
      // Each program runs twice: the second run continues from the first one's saves. The adapter's suite starts over.
      for (const _run of code.includes("registerConformance") ? [1] : [1, 2])
        execFileSync(process.execPath, [script], { cwd: folder, env, stdio: "pipe" });
    },
    // One program is the whole suite of an adapter on files, with its kills.
    600_000,
  );
});

/** Removes only types and keeps the syntax, so that a program must also run as plain JavaScript on this Node. */
function withoutTypes(code: string): string {
  const compilerOptions = { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext };
  return ts.transpileModule(code, { compilerOptions }).outputText;
}

function programsIn(markdown: string): string[] {
  return [...markdown.matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code ?? "");
}
