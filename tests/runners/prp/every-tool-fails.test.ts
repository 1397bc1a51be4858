import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { STATEMENT_FD } from "../../../runners/src/processes/command.js";
import { gateScript } from "../../../runners/src/prp/gates/gate-script.js";
import { readPrp } from "../../../runners/src/prp/load-prp.js";
import { tempFolder } from "../../support/temp-folder.js";
import { fence, markdown } from "./reading/markdown.js";

/** The shells themselves, which run the gates. */
const SHELLS = /^(?:bash|sh|zsh|dash)$/;
/** A folder with a PATH on which each tool of this machine, and each one below, exits with 1. */
let folder: string;

async function makeFailingTools(): Promise<void> {
  folder = await mkdtemp(join(tmpdir(), "waymark-"));
  await writeFile(join(folder, "fails"), "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  const bin = join(folder, "bin");
  await mkdir(bin);
  const names = new Set([
    "npm",
    "npx",
    "node",
    "curl",
    "jq",
    "uvicorn",
    "docker",
    "ruff",
    "mypy",
    "pytest",
    "uv",
    "go",
    "gofmt",
  ]);
  const shells = new Map<string, string>();
  for (const path of (process.env["PATH"] ?? "").split(delimiter)) {
    for (const name of await readdir(path).catch(() => [])) {
      if (SHELLS.test(name)) shells.set(name, join(path, name));
      else names.add(name);
    }
  }
  for (const name of names) await symlink("../fails", join(bin, name));
  for (const [name, path] of shells) await symlink(path, join(bin, name));
}

/** Gates as people write them, each of whose tools has something to check. */
const GATES: readonly string[] = [
  "npm test",
  "ruff check src --fix && mypy src",
  "uv run pytest tests/ -v | tail -20",
  'n=$(npm test 2>&1 | wc -l)\necho "lines: $n"',
  "OUT=$(npm run build; echo built)\necho $OUT",
  "check() {\n  npm test\n  echo checked\n}\ncheck || exit 1",
  "run_all() { npm run lint && echo linted; npm test && echo tested; echo end; }\nrun_all",
  "if ! npm test; then\n  echo FAIL\n  exit 1\nfi",
  "if [ -d . ]; then\n  npm test && echo ok\n  echo end\nfi",
  "npm run lint &\nnpm test &\nwait",
  "npm run lint & a=$!\nnpm test & b=$!\nwait $b $a\necho done",
  'bash -c "npm test; echo done"',
  "sh -c 'npm run lint\nnpm test\necho done'",
  "bash <<EOF\nnpm test\necho done\nEOF",
  'test -z "$(gofmt -l .)"',
  '[ "$(git status --porcelain | wc -l)" -eq 0 ] && echo clean',
  'if [ -z "$(git status --porcelain)" ]; then echo clean; else echo dirty; exit 1; fi',
  "for f in $(git ls-files); do node --check $f; done",
  "find src -name '*.js' -exec node --check {} \\;",
  "find . -name '*.py' | while read -r f; do python3 -m py_compile $f; done",
  "(cd . && npm test; echo end) || exit 1",
  "failed=0\nnpm test || failed=1\nnpm run lint || failed=1\nexit $failed",
  "errors=0\nfor f in a b; do node --check $f || errors=$((errors + 1)); done\ntest $errors -eq 0",
  "npm run dev\ncurl -f localhost:39999/health",
  "cd . && uvicorn main:app --port 39999\ncurl -s localhost:39999 | grep ok",
  "set +e\nnpm test\necho $?",
  "docker compose up -d\ncurl -f localhost\ndocker compose down",
  "npm test 2>&1 | tee log\ntrue",
  "npm test; exit 0",
];

/** Gates in which the author ignores each failure, or which a person has to look at. */
const UNCHECKED: readonly string[] = [
  "npm test || true",
  "npm test || echo failed",
  "for f in a b; do\n  node --check $f || echo bad $f\ndone",
  "if npm test; then echo ok; else echo FAIL; fi",
  "errors=0\nnpm test || errors=$((errors + 1))\necho $errors",
  "npm run serve &",
  "cat <<EOF\nOpen the page, and look.\nEOF",
  'echo "MANUAL: open the page"',
  "npm run dev\n# In the browser: the list is shown",
];

function prpOf(gates: readonly string[]): string {
  return markdown(
    "# Make it",
    "## Validation Loop",
    ...gates.flatMap((gate, at) => [`### Level ${at + 1}: A`, fence("bash", gate)]),
  );
}

describe("where every tool fails", () => {
  beforeAll(makeFailingTools);
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it.each(GATES)("this gate fails: %j", async (gate) => {
    const [loaded] = await load([gate]);
    expect(loaded?.skipped).toBeUndefined();
    expect(await statusOf(loaded?.command ?? "")).toBeGreaterThan(0);
  });

  it.each(UNCHECKED)("this gate is left to a person: %j", async (gate) => {
    const [, loaded] = await load(["npm test", gate]);
    expect(loaded?.skipped).toMatch(/a person (?:checks|looks)/);
  });

  it.each(["test -d .\nnpm test || echo failed", "true\nfor f in a; do node --check $f || echo bad; done"])(
    "this gate passes by a builtin, and what it ignores is reported: %j",
    async (gate) => {
      const [loaded] = await load([gate]);
      expect(await statusOf(gate)).toBe(0);
      expect(loaded?.findings).toHaveLength(1);
    },
  );
});

async function load(gates: readonly string[]) {
  const cwd = await tempFolder();
  const path = join(cwd, "PRP.md");
  await writeFile(path, prpOf(gates));
  return (await readPrp(path, { sessionPath: cwd, cwd })).gates;
}

async function statusOf(command: string): Promise<number | null> {
  const { script } = gateScript(command);
  const stdio = Array.from({ length: STATEMENT_FD + 1 }, (_, fd) => (fd === STATEMENT_FD ? "pipe" : "ignore"));
  const cwd = await tempFolder();
  return spawnSync("bash", ["-e", "-c", script], { cwd, env: { PATH: join(folder, "bin"), HOME: cwd }, stdio }).status;
}
