import { writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { type CheckPrpOptions, loadPrp as load } from "../../../runners/src/prp/load-prp.js";
import { parsePrp } from "../../../runners/src/prp/parse-prp.js";
import { executionPrompt, fixPrompt } from "../../../runners/src/prp/prompts.js";
import type { PrpDocument } from "../../../runners/src/prp/prp-document.js";
import { tempFolder } from "../../support/temp-folder.js";

const SPEC = new URL("../../fixtures/prp/spec.md", import.meta.url).pathname;

const loadPrp = (prp: PrpDocument | string, options: Partial<CheckPrpOptions> = {}) =>
  load(prp, { sessionPath: ".", cwd: ".", ...options });

const DOCUMENT: PrpDocument = {
  taskId: "P1.M1.T1.S1",
  objective: "A parser",
  context: "Files are small",
  implementationSteps: ["Write it", "Test it"],
  validationGates: [
    { level: 2, description: "Tests", command: "npm test", manual: false },
    { level: 1, description: "Types", command: "npx tsc --noEmit" },
    { level: 4, description: "Look at it", command: null, manual: true },
  ],
  successCriteria: [{ description: "It parses", satisfied: false }],
  references: ["docs/format.md"],
};

/** A level's Markdown, with each block in its own language. */
function level(number: number, title: string, ...blocks: [language: string, code: string][]): string {
  return [
    `### Level ${number}: ${title}`,
    ...blocks.map(([language, code]) => `\`\`\`${language}\n${code}\n\`\`\``),
  ].join("\n\n");
}

const loop = (...levels: string[]) => ["# A PRP", "## Validation Loop", ...levels].join("\n\n");

describe("a PRP's Markdown", () => {
  it("returns the id and four gates of the checkpoint manager's own PRP", async () => {
    const { taskId, gates, path } = await loadPrp(SPEC);

    expect(taskId).toBe("P3.M2.T2.S1");
    expect(path).toBe(SPEC);
    expect(gates.map(({ level, description }) => ({ level, description }))).toEqual([
      { level: 1, description: "Syntax & Style (Immediate Feedback)" },
      { level: 2, description: "Unit Tests (Component Validation)" },
      { level: 3, description: "Integration Testing (System Validation)" },
      { level: 4, description: "Manual Validation" },
    ]);
    expect(gates[0]?.command).toMatch(/^# Run after each file creation[\s\S]*\nnpx prettier --write [\s\S]*errors$/);
    expect(gates[2]?.command).toContain("cat > test_checkpoint_integration.ts << 'EOF'\nimport { CheckpointManager }");
  });

  it("joins the blocks of a level, also those in lists", () => {
    const { gates } = parsePrp(
      `${loop(level(1, "Both", ["sh", "true"], ["bash", "[[ 1 ]]"]))}\n\n1. Then:\n\n   \`\`\`bash\n   ls\n   \`\`\`\n`,
      "PRP.md",
    );

    expect(gates).toMatchObject([{ level: 1, description: "Both", command: "true\n[[ 1 ]]\nls" }]);
  });

  it("knows the line of each line of a command", () => {
    const { gates } = parsePrp(loop(level(1, "Both", ["sh", "true\nls"], ["bash", "pwd"])), "PRP.md");

    expect(gates).toMatchObject([{ line: 5, lines: [8, 9, 13] }]);
  });

  it("is the same with a BOM and with CRLF", async () => {
    const path = join(await tempFolder(), "PRP.md");
    const text = loop(level(1, "One", ["bash", "cd /tmp\nls"]));
    const loads = [];
    for (const written of [text, `\ufeff${text}`, `\ufeff${text.replaceAll("\n", "\r\n")}`]) {
      await writeFile(path, written);
      loads.push(await loadPrp(path));
    }

    expect(loads[0]?.gates).toMatchObject([{ level: 1, description: "One", command: "cd /tmp\nls" }]);
    expect(loads.slice(1)).toEqual([loads[0], loads[0]]);
  });

  it("has no command if its blocks are blank or comments", async () => {
    const path = join(await tempFolder(), "PRP.md");
    const blank = level(2, "Blank", ["sh", "\n \n"]);
    await writeFile(
      path,
      loop(level(1, "Notes", ["bash", "# later\n\n  # npm test"]), blank, level(3, "c", ["sh", "ls"])),
    );

    expect((await loadPrp(path)).gates.map(({ command }) => command)).toEqual([null, null, "ls"]);
    await writeFile(path, loop(level(1, "Notes", ["bash", "# later"]), blank));
    await expect(loadPrp(path)).rejects.toMatchObject({
      code: "PRP_INVALID",
      message: expect.stringMatching(/no gate that can be run/),
    });
  });

  it("ends a level at the next heading of its depth, and the loop at the next section", () => {
    const { gates } = parsePrp(
      `${loop(level(1, "One", ["sh", "one"]), "#### Details", "```sh\nmore\n```", "### Notes", "```sh\nno\n```")}\n\n## Other\n\n${level(2, "Two", ["sh", "no"])}`,
      "PRP.md",
    );

    expect(gates[0]).toMatchObject({ level: 1, description: "One", command: "one\nmore" });
    expect(gates.map(({ description }) => description)).not.toContain("Two");
  });

  it("isn't fooled by headings and fences inside code", () => {
    const { gates } = parsePrp(
      loop(
        "````text\n## Validation Loop\n### Level 2: No\n```sh\nno\n```\n````",
        level(1, "One", ["sh", "echo '### Level 2'"]),
      ),
      "PRP.md",
    );

    expect(gates.map((gate) => gate.command)).toEqual(["echo '### Level 2'"]);
  });

  it.each(["**PRP ID**: A_1 b", "**PRP ID:** A_1 b", "PRP ID: `A_1 b`", "Author: me\n**PRP ID**: A_1 b\nStatus: x"])(
    "finds the id in %j",
    (line) => {
      expect(parsePrp(`# T\n\n${line}\n\n${loop(level(1, "One", ["sh", "true"]))}`, "PRP.md").ids.own).toBe("A_1 b");
    },
  );

  it("is named by its path from the session if it has no id; the caller's name comes before both", async () => {
    const folder = await tempFolder();
    const path = join(folder, "my task.md");
    await writeFile(path, loop(level(1, "One", ["sh", "true"])));

    expect((await loadPrp(path, { sessionPath: folder })).taskId).toBe("my task");
    expect((await loadPrp(path, { sessionPath: dirname(folder) })).taskId).toBe(`${basename(folder)}/my task`);
    expect((await loadPrp(path, { taskId: "mine" })).taskId).toBe("mine");
    expect((await loadPrp(SPEC, { taskId: "mine" })).taskId).toBe("mine");
  });

  it("is refused without a section that holds its gates", async () => {
    const path = join(await tempFolder(), "PRP.md");
    await writeFile(path, "# No loop");

    await expect(loadPrp(path)).rejects.toMatchObject({
      code: "PRP_INVALID",
      message: expect.stringMatching(/names no validation gates: no section/),
    });
  });

  it("reports which file can't be read", async () => {
    await expect(loadPrp("/nowhere/PRP.md")).rejects.toMatchObject({
      name: "RunnerError",
      code: "PRP_UNREADABLE",
      message: expect.stringMatching(/\/nowhere\/PRP\.md/),
    });
  });
});

describe("a PRP document", () => {
  it("has its gates in the order of their levels", async () => {
    expect((await loadPrp(DOCUMENT)).gates.map(({ level }) => level)).toEqual([1, 2, 4]);
  });

  it("has the same digest until its requirements change", async () => {
    const { digest } = await loadPrp(DOCUMENT);

    expect((await loadPrp(structuredClone(DOCUMENT))).digest).toBe(digest);
    expect((await loadPrp(DOCUMENT, { taskId: "other" })).digest).toBe(digest);
    expect((await loadPrp({ ...DOCUMENT, objective: "Another" })).digest).not.toBe(digest);
  });

  it("is refused with the reason", async () => {
    // As in untyped JSON.
    const untyped = (document: unknown) => loadPrp(document as PrpDocument);

    await expect(untyped({ taskId: "" })).rejects.toMatchObject({
      code: "PRP_INVALID",
      message: expect.stringMatching(/validationGates/),
    });
    await expect(untyped({ taskId: "t", validationGates: [] })).rejects.toThrow(/no validation gate/);
    await expect(untyped(null)).rejects.toMatchObject({ code: "PRP_INVALID" });
  });

  it.each([
    ["a misspelled key", { manaul: true }, /"manaul"/],
    ["a level without a number", { level: "first" }, /A level names a number/],
    ["no level", { level: undefined }, /level/],
    ["a placeholder in its command", { command: "cat <file>x" }, /<file> is a placeholder/],
    ["a command that is no valid shell", { command: "if true" }, /isn't valid shell/],
    ["a NUL in its command", { command: "true \0" }, /can't hold a NUL/],
    ["a blank command, and it is alone", { command: " \n" }, /no gate that can be run/],
    ["no command, and it is alone", { command: null }, /no gate that can be run/],
    ["a person to check it, and it is alone", { manual: true }, /a person checks it/],
  ])("is refused if a gate has %s", async (_what, wrong, message) => {
    // As in untyped JSON.
    const gate = { level: 1, description: "", command: "true", ...wrong } as PrpDocument["validationGates"][number];

    await expect(loadPrp({ taskId: "t", validationGates: [gate] })).rejects.toMatchObject({
      code: "PRP_INVALID",
      message: expect.stringMatching(message),
    });
  });

  it("may have other parts", async () => {
    const document = { ...DOCUMENT, author: "me" };

    expect((await loadPrp(document)).gates).toHaveLength(3);
  });
});

describe("prompts", () => {
  it("tell the coder everything that the document says, and how to answer", async () => {
    const prompt = executionPrompt(await loadPrp(DOCUMENT));

    for (const part of ["A parser", "Files are small", "Test it", "It parses", "docs/format.md", "npm test"]) {
      expect(prompt).toContain(part);
    }
    expect(prompt).toContain('{"result": "success" | "error" | "issue"');
  });

  it("contain a document's own prompt unchanged, and a file's text with its path", async () => {
    expect(executionPrompt(await loadPrp({ ...DOCUMENT, prompt: "Just do it." }))).toContain(
      "\n<prp>\nJust do it.\n</prp>\n",
    );
    const prompt = executionPrompt(await loadPrp(SPEC));
    expect(prompt).toContain(SPEC);
    expect(prompt).toContain("**PRP ID**: P3.M2.T2.S1");
  });

  it("tell the coder what failed, and which attempt this is", async () => {
    const failed = {
      level: 2,
      description: "Tests",
      success: false,
      command: "npm test",
      stdout: "1 failed\nsee above",
      stderr: "boom",
      exitCode: 1,
      skipped: false,
    } as const;
    const prompt = fixPrompt(await loadPrp(SPEC), [failed, { ...failed, level: 3, exitCode: null }], {
      number: 1,
      of: 2,
    });

    expect(prompt).toContain("fix attempt 1 of 2");
    expect(prompt).toContain(
      "Level 2: Tests\nCommand:\n    npm test\nExit code: 1\nOutput:\n    1 failed\n    see above\nErrors:\n    boom",
    );
    expect(prompt).toContain("Exit code: none");
    expect(prompt).toContain(JSON.stringify(SPEC));
  });
});
