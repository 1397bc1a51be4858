import { spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { STATEMENT_FD } from "../../../../runners/src/processes/command.js";
import { GateSyntaxError, gateScript } from "../../../../runners/src/prp/gates/gate-script.js";
import { tempFolder } from "../../../support/temp-folder.js";

/** A folder with `there.txt` and `src/`. */
async function project(): Promise<string> {
  const folder = await tempFolder();
  await writeFile(join(folder, "there.txt"), "one\n");
  await mkdir(join(folder, "src"));
  await writeFile(join(folder, "src", "a.ts"), "const a = 1; // TODO in a test\n");
  return folder;
}

interface Run {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The numbers of the statements that began. */
  readonly begun: string[];
}

async function run(command: string, cwd?: string): Promise<Run> {
  const { script } = gateScript(command);
  const stdio = Array.from({ length: STATEMENT_FD + 1 }, (_, fd) =>
    [1, 2, STATEMENT_FD].includes(fd) ? ("pipe" as const) : ("ignore" as const),
  );
  const { status, output } = spawnSync("bash", ["-e", "-c", script], {
    cwd: cwd ?? (await project()),
    stdio,
    encoding: "utf8",
  });
  const text = (fd: number): string => output[fd]?.toString() ?? "";
  return {
    exitCode: status,
    stdout: text(1),
    stderr: text(2),
    begun: text(STATEMENT_FD)
      .split("\n")
      .filter((line) => line !== ""),
  };
}

describe("a gate fails", () => {
  it.each<[why: string, command: string, printed: string]>([
    [
      "at a list whose first command fails, though it isn't the last line",
      'test -f no.txt && echo "present"\necho done',
      "",
    ],
    ["at a list that is the last line", "false && true", ""],
    ["at a negated command that succeeds", "! true\necho done", ""],
    ["at a list in a subshell", "(cd src; test -f no.txt && echo a; echo b)\necho done", ""],
    ["at a list in braces whose output is piped on", "{ false && true; echo a; } | cat", ""],
    ["at a list in the body of a for", "for f in no there; do test -f $f.txt && echo $f; done\necho done", ""],
    ["in a subshell before &&", "(cd src; false; true) && echo done", ""],
    ["in a function, where the shell's own -e holds", "f() { false; echo in; }\nf\necho done", ""],
    ["at the first command of a pipe", "false | cat\necho done", ""],
    ["at a command in the middle of a pipe", "echo a | false | cat\necho done", ""],
    ["at the last command of a pipe", "echo a | grep b\necho done", ""],
    ["at a negated pipe that finds something", "! echo warning | grep warning\necho done", "warning\n"],
    ["at a pipe in a function", "f() { false | cat; }\nf\necho done", ""],
    [
      "at a substitution's pipe under the gate's own pipefail",
      "set -o pipefail\ntrue | cat\nx=$(false | cat)\necho done",
      "",
    ],
    ["at a pipe before &&", "sh -c 'exit 3' | cat && echo done", ""],
    ["at an assignment whose command fails", "x=$(echo a | grep b)\necho done", ""],
    ["at a second test that is false", "a=1; test $a = 1 && test $a = 2 # comment\necho done", ""],
    ["at a list over two lines", "true \\\n  && false\necho done", ""],
    ["where a condition is true and its work fails", "[ -d src ] && cd no\necho done", ""],
    [
      "where a folder can't be made, before anything runs in the wrong one",
      "mkdir there.txt/out && cd there.txt/out\necho done",
      "",
    ],
    ["after a here-document", "cat <<EOF; false\na\nEOF\necho done", "a\n"],
    ["after `set +e`, too", "set +e\nfalse\necho done", ""],
    ["where something unwanted is found and it exits", "grep -q TODO src/a.ts && exit 3\necho done", ""],
    ["at a pipe in a substitution", "n=$(false | wc -l)\necho $n", ""],
    ["at a pipe in a substitution's subshell", 'n="$(cd src && { false | wc -l; })"\necho $n', ""],
    ["at any statement in a substitution", "n=$(false; echo 1)\necho $n", ""],
    ["at a substitution's pipe before ||", "n=$(false | wc -l) || exit 2\necho $n", ""],
    ["at a failure in a function before ||", "f() { false; echo in; }\nf || exit 3\necho done", ""],
    ["at a list in a function", "f() { false && echo a; echo in; }\nf\necho done", ""],
    [
      "at a failure in a function that a condition calls",
      "f() { false; true; }\nif f; then echo done; else exit 1; fi",
      "",
    ],
    ["at a failure in a subshell before ||", "(false; echo in) || exit 4\necho done", ""],
    ["at a list in the body of an if", "if true; then test -f no && echo a; fi\necho done", ""],
    ["at a list in the body of a while", "while read -r f; do test -f $f && echo $f; done <<< no\necho done", ""],
    ["at a list in a case", "case a in a) false && echo a;; esac\necho done", ""],
    ["at wait, if a job failed", "false &\ntrue &\nwait\necho done", ""],
    ["at wait, if a job in a group failed", "{ false & true & wait; }\necho done", ""],
    ["at wait, if the first of several jobs failed", "false & a=$!\ntrue & b=$!\nwait $a $b\necho done", ""],
    ["at the first failure in sh -c", "sh -c 'false; echo in'\necho done", ""],
    ["at the first failure in bash -c behind another command", 'env A=1 bash -c "false\necho in"\necho done', ""],
    ["at the first failure in a here-document for bash", "bash <<EOF\nfalse\necho in\nEOF\necho done", ""],
    ["at a test that expects nothing of a command that is missing", 'test -z "$(no-such-tool)"\necho done', ""],
    ["at a test that expects no lines", "[ $(no-such-tool | wc -l) -eq 0 ]\necho done", ""],
    ["at a test in ||", 'test -z "$(no-such-tool)" || { echo dirty; exit 1; }\necho done', "dirty\n"],
    ["at a test in an if", 'if [ -z "$(no-such-tool)" ]; then echo clean; else exit 1; fi\necho done', ""],
    ["at a loop over what a failing command lists", "for f in $(no-such-tool); do echo $f; done\necho done", ""],
    ["at a negated search in a folder that isn't there", "! grep -rn TODO srcc\necho done", ""],
    ["where the group after && exits", 'grep -q TODO src/a.ts && { echo "left"; exit 1; }\necho done', "left\n"],
  ])("%s", async (_, command, printed) => {
    const { exitCode, stdout } = await run(command);
    expect(exitCode).toBeGreaterThan(0);
    expect(stdout).toBe(printed);
  });
});

describe("a gate passes", () => {
  it.each<[why: string, command: string, printed: string]>([
    ["where a pipe's reader has had enough", "seq 1 100000 | grep -q 5\necho done", "done\n"],
    ["where a pipe's reader takes the first lines", "seq 1 100000 | head -2\necho done", "1\n2\ndone\n"],
    ["at a negated command that fails", "! false\necho done", "done\n"],
    ["at a negated pipe that finds nothing", "! echo fine | grep -i warning\necho done", "done\n"],
    ["at a negated pipe whose first search finds nothing", "! grep FIXME src/a.ts | grep -v test\necho done", "done\n"],
    ["where a condition of preparing is false", "[ -d no ] && rm -r no\necho done", "done\n"],
    [
      "where one of several tests of a condition is false",
      "[ -d src ] && [ -d no ] && cp -r src no\necho done",
      "done\n",
    ],
    ["where a condition asks for a command", "command -v no-such-tool > /dev/null && cd src\necho done", "done\n"],
    ["where a condition asks by [[", "[[ -f no ]] && source no\necho done", "done\n"],
    ["where a condition over two lines is false", "[ -f no ] &&\n # why\n  mkdir -p out\necho done", "done\n"],
    ["where the tool is there, and it installs nothing", "command -v no-tool && npm install\necho done", "done\n"],
    ["where nothing unwanted is found", "grep -q FIXME src/a.ts && exit 1\necho done", "done\n"],
    ["where a loop waits for something", "for i in 1 2 3; do test $i = 2 && break; done\necho $i", "2\n"],
    ["where a loop leaves some out", "for i in 1 2; do test $i = 1 && continue; echo $i; done", "2\n"],
    ["by `||`", "test -d no || mkdir no\ncd no && echo done", "done\n"],
    ["where a list in `||` fails", "(false; true) || echo a\necho done", "a\ndone\n"],
    [
      "where a search in a substitution finds nothing",
      "n=$(grep FIXME src/a.ts | wc -l)\ntest $n -eq 0\necho done",
      "done\n",
    ],
    ["where a test expects that a search finds nothing", 'test -z "$(grep FIXME src/a.ts)"\necho done', "done\n"],
    ["where a test expects a search's lines", "[ $(grep TODO src/a.ts | wc -l) -eq 1 ]\necho done", "done\n"],
    ["where something is expected, and would end the gate", '[ -z "$(echo a)" ] && exit 1\necho done', "done\n"],
    ["where a loop's list is empty", "for f in $(true); do false; done\necho done", "done\n"],
    ["at a negated search that finds nothing", "! grep -rn FIXME src\necho done", "done\n"],
    ["where all jobs succeed", "true &\ntrue &\nwait\necho done", "done\n"],
    ["where the gate has ended a job", "sleep 100 &\nkill $!\nwait\necho done", "done\n"],
    ["where a function reads a status itself", "f() { false; r=$?; echo $r; }\nif f; then echo done; fi", "1\ndone\n"],
    [
      "where a function retries",
      "f() { for i in 1 2; do test $i = 2 && return 0; done; return 1; }\nf || exit 1\necho done",
      "done\n",
    ],
    ["where a condition in a function is false", "f() { if test -f no; then echo a; fi; }\nf\necho done", "done\n"],
    ["where sh -c reads a status itself", "sh -c 'false; echo $?'\necho done", "1\ndone\n"],
    ["where a negated subshell fails", "! (false; false)\necho done", "done\n"],
    ["by the condition of an `if`", "if test -f no && echo a; then echo b; fi\necho done", "done\n"],
    ["by the condition of an `if` that is a pipe", "if seq 1 100000 | grep -q 5; then echo done; fi", "done\n"],
    ["by the condition of a `while`", "i=0; while test $i -lt 2 && true; do i=$((i + 1)); done\necho $i", "2\n"],
    ["by `exit 0`", "echo done; exit 0\nfalse", "done\n"],
    ["with a job in the background", "sleep 100 & pid=$!\nkill $pid\necho done", "done\n"],
    [
      "where the gate has set pipefail, and a reader has had enough",
      "set -euo pipefail\nseq 1 100000 | head -1\necho done",
      "1\ndone\n",
    ],
    [
      "where nothing unwanted is found, and a subshell would exit",
      "grep -q FIXME src/a.ts && (echo left; exit 1)\necho done",
      "done\n",
    ],
    ["with a here-document", "cat <<EOF | grep -q b\na\nb\nEOF\necho done", "done\n"],
  ])("%s", async (_, command, printed) => {
    expect(await run(command)).toMatchObject({ exitCode: 0, stdout: printed, stderr: "" });
  });
});

describe("a gate's script", () => {
  it("exits with the code of the statement that failed", async () => {
    expect((await run("true\nsh -c 'exit 7' && true\ntrue")).exitCode).toBe(7);
    expect((await run("sh -c 'exit 3' | cat")).exitCode).toBe(3);
  });

  it("keeps the lines' numbers, so that a shell's own message fits the text", async () => {
    expect((await run("echo a\necho b | cat\nno-such-command")).stderr).toMatch(/line 3: no-such-command/);
  });

  it("reports which statement began last", async () => {
    const command = "echo a\n# why\nmake() {\n  true\n}\nmake; (true; false)\necho b";
    const { begun } = await run(command);
    expect(begun).toEqual(["0", "1", "2", "3"]);
    const { statements } = gateScript(command);
    expect(statements[Number(begun.at(-1))]).toEqual({ text: "(true; false)", line: 5 });
  });

  it("refuses text that is no valid shell, with its line", () => {
    for (const [command, line] of [
      ["TestSave()\nTestLoad()", 1],
      ["true\nif true; then\necho a", 2],
      ['echo "a', 0],
    ] as const) {
      const parse = () => gateScript(command);
      expect(parse).toThrow(GateSyntaxError);
      expect(parse).toThrow(expect.objectContaining({ line }));
    }
  });
});
