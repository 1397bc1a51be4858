import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { STATEMENT_FD } from "../../../../runners/src/processes/command.js";
import { gateScript } from "../../../../runners/src/prp/gates/gate-script.js";
import { inspectGate } from "../../../../runners/src/prp/gates/inspect-gate.js";
import { tempFolder } from "../../../support/temp-folder.js";

const inspect = (command: string) => inspectGate({ command, lines: command.split("\n").map((_, index) => index) });
const kinds = (command: string) => inspect(command).findings.map(({ kind, line }) => `${kind} ${line}`);
const messages = (command: string) => inspect(command).findings.map(({ message }) => message);

describe("a placeholder", () => {
  it.each([
    "gh issue list --repo <owner>/app",
    "echo hi <owner>out.txt",
    "pytest path/to/test_file.py",
    "npm test -- {{test_name}}",
    'cat "path/to/file"',
    'curl -f -H "Authorization: Bearer <TOKEN>" localhost',
    'curl -f "localhost/<your-endpoint>"',
    "[specific commands for this feature]",
  ])("is an error: %s", (command) => {
    expect(kinds(`npm test\n${command}`)).toEqual(["error 1"]);
  });

  it.each([
    "sort < in.txt > out.txt",
    "diff <(sort a) <(sort b)",
    "sh <<EOF\n<owner>\nEOF",
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
    expect(inspectGate({ command: `true\n${command}`, lines: [7, 8] }).findings).toMatchObject([
      { kind: "error", line: 8, message: expect.stringContaining("is a placeholder that nobody has filled in") },
    ]);
  });
});

describe("a warning", () => {
  it.each<[command: string, advice: RegExp]>([
    ["grep -rn TODO src\n# Expected: no output", /write `! grep -rn TODO src`/],
    ["grep -rn TODO src | wc -l # expected: 0", /write `! grep -rn TODO src`/],
    ["# Should find nothing\ngrep -rn TODO src\necho done", /write `! grep -rn TODO src`/],
    ["grep -q bad f && echo FAIL || echo ok\nnpm test", /always succeeds/],
    ["git grep -n TODO src # Expected: no output", /write `! git grep -n TODO src`/],
    ["git diff --stat -- f # Expected: empty\nnpm test", /write `test -z "\$\(git diff --stat -- f\)"`/],
    ["npm run test:watch", /times out/],
    ["npx vitest --watch", /times out/],
    ["(cd app; npm run dev | tee log)", /times out/],
    ["gofmt -l .", /write `test -z "\$\(gofmt -l \.\)"`/],
    ["curl -s localhost/health", /write `curl -f`/],
    ["curl -s localhost/items | jq .", /write `curl -f`/],
    ["curl -s -o /dev/null -w '%{http_code}' localhost", /write `curl -f`/],
    ["if curl -s localhost; then echo ok; else exit 1; fi", /write `curl -f`/],
    ["R=$(curl -s localhost)\necho $R", /write `curl -f`/],
    ["find src -name '*.js' -exec node --check {} \\;", /find succeeds even if node fails/],
    ["npm run serve &\nnpm test", /in the background; wait for its port/],
    ["npm run lint &\nnpm test", /in the background; end the gate with `wait`/],
    ["npm run build\nfor f in a b; do\n  test -f $f || echo missing $f\ndone", /always succeeds/],
    ["npm run build\nif npm test; then echo ok; else echo FAIL; fi", /always succeeds/],
    ["npm run build\nwhile read -r f; do [ -f $f ] || echo missing; done < list", /always succeeds/],
    ["npm run build\ncase $(npm test) in ok) echo ok;; *) echo bad;; esac\nnpm test || :", /always succeeds/],
    ["for f in a b; do npm test $f; test -f $f || echo missing; done", /always succeeds/],
    ["npm ci\nbad=0\nnpm test || bad=$((bad+1))\necho $bad failed", /nothing reads `bad`/],
    ["npm ci\nfail() { echo $1; failed=1; }\nnpm test || fail tests\necho end", /nothing reads `failed`/],
    ["{ npm test; echo tested; } || exit 1", /only the last command in the braces counts/],
    ["cat > a.py <<EOF\nprint(1)\nEOF", /only writes files/],
    ["npm run lint\nexit 0\nnpm test", /nothing after `exit 0` runs/],
    ["npm run build\necho 'MANUAL: open the page'", /only prints what a person should do/],
    ["npm run build\necho '1. Click on Save'", /only prints what a person should do/],
    ["ssh admin@host.example\ndocker --version", /opens a session/],
    ["docker exec -it app bash\npytest", /opens a session/],
    ["terraform apply", /it asks before .* write `-auto-approve`/],
    ["docker volume prune", /it asks before .* write `--force`/],
    ["PLUGIN_DIR=target/debug\ninspect plugin-a", /PLUGIN_DIR is set but not exported/],
    ['npm ci\necho "lines: $(npm test | wc -l)"', /nothing sees whether \$\(npm test \| wc -l\) fails/],
    ["export N=$(npm test)\nnpm run x", /nothing sees whether/],
    ["diff <(npm run a) <(npm run b)", /nothing sees whether/],
    ["sh -c 'npm test | tee log'", /set -o pipefail/],
    ["npm run build\n\n# Expected: no matches\ngrep -rn TODO src", /write `! grep -rn TODO src`/],
    ['curl -s localhost/health\n# Expected: {"status":"ok"}', /nothing compares its output/],
    ["rm -rf build", /^rm -r: its effect outlasts/],
    ["git push origin main", /git push/],
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
    "curl -fsS localhost/health",
    "curl --fail-with-body localhost",
    "curl -s localhost | grep -q ok",
    "curl -s localhost/items | jq -e '.ok'",
    'test "$(curl -s -o /dev/null -w "%{http_code}" localhost)" = 200',
    "curl -s localhost > out.json\njq -e .ok out.json",
    'R=$(curl -s localhost)\necho "$R" | grep -q ok',
    "until curl -s localhost; do sleep 1; done",
    "! curl -s localhost:9",
    "curl --version",
    "find . -name '*.pyc' -exec rm {} \\;",
    "find src -name '*.js' -exec node --check {} +",
    "npm run lint &\nnpm test &\nwait",
    "npm run serve &\nnpx wait-on http://localhost:3000\nnpm test",
    "for i in $(seq 30); do nc -z localhost 80 && break; sleep 1; done\nnpm test",
    "for f in a b; do\n  test -f $f || exit 1\ndone",
    "bad=0\nnpm test || bad=1\n[ $bad -eq 0 ]",
    "kill $PID || true\nnpm test",
    "mkdir out 2>/dev/null || true\nnpm test",
    "npm run build\necho 'Build is done'",
    "ssh host npm test",
    "ssh -N -L 5432:db:5432 host &\nwait $!",
    "python3 <<EOF\nassert 1\nEOF",
    "terraform plan",
    "A=1\nnpm test -- $A",
    "NODE_ENV=test npm test",
    'echo "on $(date)"\nnpm test',
    "npm run start:basic\nnpm run start:errors",
    'npm test -- a.test.js\n# Expected: all pass. If one named "it should fail early" still\n#   runs, the rewrite is incomplete.',
    "npm run examples\n\n# Expected: they run\n# Note: they will fail until part 2 is done",
    "node try.js\n# Expected output:\n# Invalid should fail: true\n\n# Clean up\nrm try.js",
    "npm run a # should fail only if the cache is cold",
    "npm run build\n# Expected: no errors, no output\n\n# The sources\ngrep -n x src/a",
  ])("doesn't appear for %s", (command) => {
    expect(messages(command)).toEqual([]);
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

describe("a gate in which nothing can fail", () => {
  it.each([
    "echo 'Open the page'\necho 'Look at it'",
    "npm test || true",
    "npm test && echo ok || echo FAIL\nnpm run lint || true",
  ])("is for a person, and has no warnings: %s", (command) => {
    expect(inspect(command)).toMatchObject({ findings: [], whyByHand: "nothing in it can fail: a person checks it" });
  });
});

describe("a command that a warning suggests", () => {
  it.each([
    "grep -n bad f # Expected: no output",
    "grep -n bad f | wc -l # expected: 0",
    "grep -n bad f | grep -v good # Expected: nothing",
    "find . -name 'bad*' # Expected: no output",
  ])("passes if the gate's text says that all is well, and fails if it isn't: %s", async (command) => {
    const [, advised = ""] = /write `(.+)`$/.exec(messages(`true\n${command}`)[0] ?? "") ?? [];
    const { script } = gateScript(advised);
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
