import { describe, expect, it } from "vitest";
import { brief, commandsIn, fence, gatesIn } from "./markdown.js";

const level = (...blocks: string[]) => gatesIn("### Level 1: One", ...blocks);

describe("the commands of a level", () => {
  it.each(["bash", "sh", "zsh", "shell", "console", "terminal", "BASH", "bash title=x"])(
    "run under bash if the block is %s",
    (language) => {
      expect(level(fence(language, "true"))).toMatchObject([{ command: "true", left: [] }]);
    },
  );

  it.each(["fish", "powershell", "pwsh", "cmd"])("leave out %s, and say so", (language) => {
    expect(level(fence("bash", "true"), fence(language, "other"))).toMatchObject([
      { command: "true", left: [{ language, line: 16, why: "other shell" }] },
    ]);
  });

  it("are none if a level has only Python", () => {
    expect(
      gatesIn("### Level 1: A", fence("bash", "true"), "### Level 2: B", fence("python", "def test(): pass")),
    ).toMatchObject([
      { command: "true" },
      { level: 2, command: null, left: [{ language: "python", why: "other language" }] },
    ]);
  });

  it.each(["console", "terminal", "shell-session"])("follow the prompts of a %s session", (language) => {
    const session = "$ npm test\n42 passed\n$ docker run \\\n>   image\ndone";

    expect(level(fence(language, session))).toMatchObject([
      { command: "npm test\ndocker run \\\n  image", lines: [12, 14, 15] },
    ]);
  });

  it.each(["me@host:~/app$ ls", "% ls", "❯ ls", "> ls", "(venv) $ ls"])("follow other prompts too: %s", (line) => {
    expect(level(fence("console", `${line}\nREADME.md`))).toMatchObject([{ command: "ls" }]);
  });

  it("follow the prompts of a bash block that has them", () => {
    expect(level(fence("bash", "# List\n$ ls\nREADME.md"))).toMatchObject([{ command: "ls" }]);
  });

  it.each(["npm test\nnpx tsc --noEmit", "./check.sh && ls", "API_KEY=x pytest -q", "$ npm test"])(
    "may be in a block without a language, if it is a command: %j",
    (code) => {
      expect(level("Run:", fence("", code))).toMatchObject([{ command: code.replace("$ ", "") }]);
    },
  );

  it.each(["All tests passed", "1. Open the page\n2. Look", "├── src", "Tests: 8 passed, 8 total", "✓ done"])(
    "aren't in a block without a language that isn't a command: %j",
    (text) => {
      expect(level(fence("", text))).toMatchObject([{ command: null, left: [{ why: "output" }] }]);
    },
  );

  it.each([
    "Expected output:",
    "Should print:",
    "**Expected Result**",
    "预期输出：",
    "Saída esperada:",
    "Erwartete Ausgabe:",
    "出力：",
  ])("aren't in a block without a language after %j", (before) => {
    expect(level(before, fence("", "ok"))).toMatchObject([{ command: null, left: [{ why: "output" }] }]);
  });

  it("aren't in a block without a language after a command", () => {
    expect(level(fence("bash", "npm test"), "It ends so:", fence("", "ok"))).toMatchObject([{ command: "npm test" }]);
  });

  it.each([
    "#### If it fails",
    "**If tests fail:**",
    "#### Rollback plan",
    "#### Troubleshooting",
    "If it fails:",
    "如果失败：",
    "#### 回滚",
    "#### Si falla",
    "#### Se falhar",
    "#### Bei Fehlern",
    "#### Fehlerbehebung",
  ])("aren't under %j", (heading) => {
    expect(level(fence("bash", "npm test"), heading, fence("bash", "git checkout ."))).toMatchObject([
      { command: "npm test", left: [{ why: "after a failure" }] },
    ]);
  });

  it("aren't under a heading beside the levels that says what to do after a failure", () => {
    const blocks = ["### Level 1: One", fence("bash", "npm test"), "### Rollback", fence("bash", "git reset --hard")];

    expect(commandsIn(...blocks)).toEqual(["npm test"]);
    expect(commandsIn("### Tests", fence("bash", "npm test"), "### If it fails", fence("bash", "rm -rf x"))).toEqual([
      "npm test",
    ]);
  });

  it.each(["#### Database rollback works", "Run these first. If they fail, fix them:", "Errors fail the build."])(
    "may be under %j, which is about the gate",
    (before) => {
      expect(level(before, fence("bash", "npm test"))).toMatchObject([{ command: "npm test" }]);
    },
  );

  it("may be under a level of that name", () => {
    expect(
      brief(gatesIn("### Level 1: A", fence("bash", "a"), "### Level 4: Rollback", fence("bash", "b"))),
    ).toHaveLength(2);
    expect(commandsIn("### Level 1: A", fence("bash", "a"), "### Level 4: Rollback", fence("bash", "b"))).toEqual([
      "a",
      "b",
    ]);
  });

  it("are none if the blocks are blank or comments", () => {
    expect(
      commandsIn("### Level 1: A", fence("bash", "# later\n\n  # npm test"), "### Level 2: B", fence("sh", "\n \n")),
    ).toEqual([null, null]);
  });

  it("are only in fences, also inside lists, and not in text that is indented by accident", () => {
    expect(level("1. Then:\n\n   ```bash\n   ls\n   ```", "    false")).toMatchObject([{ command: "ls" }]);
  });

  it("keep headings and fences inside code unchanged", () => {
    expect(level(fence("bash", "cat <<'X'\n### Level 2: B\n## Other\nX"))).toMatchObject([
      { command: "cat <<'X'\n### Level 2: B\n## Other\nX" },
    ]);
  });
});
