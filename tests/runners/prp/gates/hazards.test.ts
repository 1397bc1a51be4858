import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { STATEMENT_FD } from "../../../../runners/src/processes/command.js";
import { findingsIn } from "../../../../runners/src/prp/gates/gate-findings.js";
import { gateScript } from "../../../../runners/src/prp/gates/gate-script.js";
import { hazardsIn } from "../../../../runners/src/prp/gates/hazards.js";
import { tempFolder } from "../../../support/temp-folder.js";

const kinds = (command: string) => hazardsIn(command).map(({ kind, line }) => `${kind} ${line}`);
const messages = (command: string) => hazardsIn(command).map(({ message }) => message);

describe("a placeholder", () => {
  it.each([
    "gh issue list --repo <owner>/app",
    "echo hi <owner>out.txt",
    "pytest path/to/test_file.py",
    "npm test -- {{test_name}}",
    'cat "path/to/file"',
    'curl -H "Authorization: Bearer <TOKEN>" localhost',
    'curl "localhost/<your-endpoint>"',
    "[specific commands for this feature]",
  ])("is an error: %s", (command) => {
    expect(kinds(`npm test\n${command}`)).toEqual(["error 1"]);
  });

  it.each([
    "sort < in.txt > out.txt",
    "diff <(sort a) <(sort b)",
    "cat <<EOF\n<owner>\nEOF",
    "docker ps --format '{{.Names}}'",
    'docker ps --format "{{.Names}}"',
    "grep '<div>' index.html",
    'grep "<TITLE>" index.html',
    'test "$(node render.js)" = "<div>"',
    "[ -d src ]",
    "npm test # see path/to/docs and <owner>",
    "ls mypath/too",
  ])("is not seen in %s", (command) => {
    expect(kinds(command)).toEqual([]);
  });
});

describe("a placeholder that is no valid shell", () => {
  it.each(["gh repo view <owner>", "curl http://localhost:8000/<your-endpoint>"])("is named: %s", (command) => {
    expect(findingsIn({ command: `true\n${command}`, lines: [7, 8] })).toMatchObject([
      { kind: "error", line: 8, message: expect.stringContaining("is a placeholder that nobody has filled in") },
    ]);
  });
});

describe("a warning", () => {
  it.each<[command: string, advice: RegExp]>([
    ["grep -rn TODO src\n# Expected: no output", /write `! grep -rn TODO src`/],
    ["grep -rn TODO src | wc -l # expected: 0", /write `! grep -rn TODO src`/],
    ["# Should find nothing\ngrep -rn TODO src\necho done", /write `! grep -rn TODO src`/],
    ["grep -q bad f && echo FAIL || echo ok\nnpm test", /succeeds whichever branch runs/],
    ["git grep -n TODO src # Expected: no output", /write `! git grep -n TODO src`/],
    ["git diff --stat -- f # Expected: empty\nnpm test", /write `test -z "\$\(git diff --stat -- f\)"`/],
    ["./app bad-argument # → usage error, exit 1", /write `! \.\/app bad-argument`/],
    ["npx vitest run 2>&1 | head -5", /Node/],
    ["npm run test:watch", /times out/],
    ["cargo run -- serve\ncurl -f localhost", /what follows never runs/],
    ["npm start -- --port 3000", /times out/],
    ["echo 'Open the page'\necho 'Look at it'", /nothing in this gate can fail/],
    ["npm test || true", /nothing in this gate can fail/],
    ['./app --wrong\necho "exit=$?"', /ends here if this fails, before its \$\? is read/],
    ["./app --wrong; CODE=$?; test $CODE -eq 2", /before its \$\? is read/],
    ["npx vitest --watch", /times out/],
    ["mongod --dbpath data", /times out/],
    ["gofmt -l .", /write `test -z "\$\(gofmt -l \.\)"`/],
    ['test -f a.txt && echo "present"', /`if …; then …; fi`/],
    ["python3 list.py | head -5", /Python/],
    ["npm run dev\ncurl -f localhost:3000", /what follows never runs/],
    ["uvicorn main:app --reload", /times out/],
    ["rm -rf build", /^rm -r: its effect outlasts/],
    ["git push origin main", /git push/],
    ["docker system prune -f", /docker prune/],
    ["sudo apt-get install jq", /sudo/],
  ])("comes with %s", (command, advice) => {
    expect(messages(command).join("\n")).toMatch(advice);
    expect(kinds(command).every((kind) => kind.startsWith("warning"))).toBe(true);
  });

  it.each([
    "! grep -rn TODO src\n# Expected: no output",
    "git diff --exit-code # Expected: no output",
    "./check # exits 1 if a file differs",
    "grep -q done log\n# Expected: one line",
    "grep v3 c.toml\n# Verify a second run creates NO new backup; it should not.\necho done",
    'grep -n x f\n# Expect: x = 1  (NO "y" prefix).',
    "npm run dev &\ncurl -f localhost",
    "npm run build",
    "npm run build\nif [ $? -ne 0 ]; then exit 1; fi",
    "npm run build; [ $? -eq 0 ]",
    "grep -q x f\n# Should find nothing\nls",
    "echo begin\nnpm test",
    "rm out.txt",
    "[ -d out ] && rm out/a",
  ])("doesn't appear for %s", (command) => {
    expect(messages(command)).toEqual([]);
  });

  it("appears once for a gate in which nothing can fail", () => {
    expect(messages("npm test && echo ok || echo FAIL\nnpm run lint || true")).toEqual([
      "nothing in this gate can fail",
    ]);
  });

  it("for a search in a pipe suggests one way to write it", () => {
    expect(messages("grep -rn foo src | grep -v test # Expected: no output")).toEqual([
      expect.stringContaining("write `! grep -rn foo src | grep -v test`"),
    ]);
  });

  it("has the line of its statement", () => {
    expect(kinds("true\n\ngit push\ntrue\ngofmt -l .")).toEqual(["warning 2", "warning 4"]);
  });
});

describe("a command that a warning suggests", () => {
  it.each([
    "grep -n bad f # Expected: no output",
    "grep -n bad f | wc -l # expected: 0",
    "grep -n bad f | grep -v good # Expected: nothing",
    "find . -name 'bad*' # Expected: no output",
    "cat bad # should fail",
  ])("passes if the gate's text says that all is well, and fails if it isn't: %s", async (command) => {
    const [, advised = ""] = /write `(.+)`$/.exec(messages(`true\n${command}`)[0] ?? "") ?? [];
    const { script } = gateScript(advised, "bash");
    const stdio = Array.from({ length: STATEMENT_FD + 1 }, (_, fd) => (fd === STATEMENT_FD ? "pipe" : "ignore"));
    const exitCodes = ["good", "bad"].map(async (kind) => {
      const cwd = await tempFolder();
      await writeFile(join(cwd, "f"), `a ${kind} line\n`);
      if (kind === "bad") await writeFile(join(cwd, "bad"), "");
      return spawnSync("bash", ["-e", "-c", script], { cwd, stdio }).status;
    });
    expect(await Promise.all(exitCodes)).toEqual([0, 1]);
  });
});
