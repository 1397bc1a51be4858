import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempFolder } from "../support/temp-folder.js";
import { AGENT } from "./prp-project.js";
import { eventsIn, waymark } from "./waymark.js";

describe("waymark prp check", () => {
  it("lists each gate with its statements, why it is skipped, and its warnings with their lines", async () => {
    const { check } = await folderWith({
      "PRP.md": prp(
        "### Level 1: Style\n\n```bash\nrm -rf out\nmkdir out && cd out\nif true; then\n\techo a\nfi\n```",
        "### Level 1.5: A look at it\n\nOpen it, and look.",
        "### Level 2: Python\n\n```python\nprint(1)\n```",
        "### Level 3: Two shells\n\n```sh\ntrue\n```\n\n```fish\ntrue\n```",
      ),
    });
    const { code, stdout, stderr } = await check("PRP.md");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toBe(`PRP.md: task P1.M1, 4 gates under "Validation Loop"

Level 1: Style (line 7)
  10  rm -rf out
  11  mkdir out && cd out
  12  if true; then
        echo a
      fi
  warning, line 10: rm -r: its effect outlasts the gate

Level 1.5: A look at it (line 17)
  skipped: it has no command: a person checks it

Level 2: Python (line 21)
  skipped: it only has python, which no shell runs
  not run, line 24: a block of python (other language)

Level 3: Two shells (line 27)
  30  true
  not run, line 34: a block of fish (other shell)

It can be run: 4 gates, 2 skipped, 2 warnings.
`);
  });

  it.each([
    ["is no valid shell", "TestA()", /^ {2}error, line 10: it isn't valid shell: /m],
    [
      "has a placeholder",
      "gh repo view <owner> --web",
      /^ {2}error, line 10: <owner> is a placeholder that nobody has /m,
    ],
  ])("exits with 1 if a gate %s, and says where", async (_what, command, message) => {
    const { check } = await folderWith({ "PRP.md": prp(`### Level 1: A\n\n\`\`\`bash\n${command}\n\`\`\``) });
    const { code, stdout, stderr } = await check("PRP.md");
    expect([code, stderr]).toEqual([1, ""]);
    expect(stdout).toMatch(message);
    expect(stdout).toMatch(/\n\nIt can't be run: 1 error\.\n$/);
  });

  it("offers to skip the gates that can't be run, and --skip and --only choose", async () => {
    const bad = "### Level 2: B\n\n```bash\nconst store = new Store();\n```";
    const { check } = await folderWith({ "PRP.md": prp("### Level 1: A\n\n```bash\ntrue\n```", bad) });
    const refused = await check("PRP.md");
    expect([refused.code, refused.stdout]).toEqual([
      1,
      expect.stringMatching(/\n\nIt can't be run: 1 error\. The other gate can be run: --skip 2\.\n$/),
    ]);
    for (const flag of [
      ["--skip", "2"],
      ["--only", "1"],
    ]) {
      const { code, stdout } = await check("PRP.md", ...flag);
      expect([code, stdout]).toEqual([
        0,
        expect.stringMatching(/ {2}skipped: .*\n\nIt can be run: 2 gates, 1 skipped\.\n$/s),
      ]);
    }
    expect((await check("PRP.md", "--skip", "7")).stdout.replace(/\s+/g, " ")).toContain(
      'No gate of the PRP is "7" (--skip, --only).',
    );
  });

  it("exits with 1 for a PRP without a section of gates, and --section names one", async () => {
    const text = "# A\n\n## Setup\n\n```sh\ntrue\n```\n\n## Tests\n\n```sh\ntest 1 -eq 1\n```\n";
    const { cwd, check } = await folderWith({ "PRP.md": text });
    const refused = await check("PRP.md");
    expect(refused.code).toBe(1);
    expect(refused.stdout.replace(/\s+/g, " ")).toBe(
      'PRP.md: refused PRP.md names no validation gates: no section with code has a heading that says validation, so nothing can show that its work is done. Name the one that holds the gates (--section): "Setup" (line 3), "Tests" (line 9). ',
    );
    const { code, stdout } = await check("PRP.md", "--section", "Tests");
    expect([code, stdout]).toEqual([0, expect.stringContaining("  12  test 1 -eq 1\n")]);

    const run = (...args: string[]) => waymark({ cwd }, ["prp", "run", "PRP.md", "--coder", "./agent", ...args]);
    writeFileSync(join(cwd, "agent"), AGENT, { mode: 0o755 });
    expect((await run()).code).toBe(2);
    const ran = await run("--section", "Tests", "--json");
    const gates = eventsIn(ran.stdout).filter(({ type, kind }) => type === "stepEnded" && kind === "gate");
    expect([ran.code, gates]).toEqual([0, [expect.objectContaining({ level: 1, exitCode: 0 })]]);
  });

  it("exits with 1 for a PRP without a runnable gate", async () => {
    const { check } = await folderWith({ "PRP.md": prp("### Level 1: A\n\n```python\nprint(1)\n```") });
    const { code, stdout } = await check("PRP.md");
    expect(code).toBe(1);
    expect(stdout).toMatch(/\n\nIt can't be run:\n {2}It has no gate that can be run\.\n {2}Level 1 is skipped: /);
  });

  it("reports why a file can't be read, and checks the others", async () => {
    const { check } = await folderWith({ "PRP.md": GOOD, "broken.json": "{" });
    const { code, stdout } = await check("none.md", "PRP.md", "broken.json");
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^none\.md: refused\n {2}The PRP none\.md can't be read: ENOENT: no such file or directory\./,
    );
    expect(stdout).toMatch(/\nPRP\.md: task P1\.M1, 1 gate under /);
    expect(stdout).toMatch(/\nbroken\.json: refused\n {2}The PRP broken\.json isn't JSON: /);
    expect(stdout).toMatch(/\n\n3 PRPs: 1 can be run, 1 gate; 2 refused\.\n$/);
  });

  it("reads JSON, whose levels repeat and are texts", async () => {
    const validationGates = [
      { level: "1 — vet", command: "true" },
      { level: 1, description: "again", command: "gh repo view <owner>", manual: true },
      { level: "L5", description: "look", command: null },
    ];
    const { check } = await folderWith({ "prp.json": JSON.stringify({ taskId: "J1", validationGates }) });
    const { code, stdout } = await check("prp.json");
    expect([code, stdout]).toEqual([
      0,
      "prp.json: task J1, 3 gates\n\nLevel 1: vet\n  true\n\nLevel 1: again\n  skipped: a person checks it\n\n" +
        "Level 5: look\n  skipped: it has no command\n\nIt can be run: 3 gates, 2 skipped.\n",
    ]);
    const { prps } = JSON.parse((await check("prp.json", "--json")).stdout);
    expect(prps[0].gates.map(({ stage }: { stage: string }) => stage)).toEqual([
      "validation-gate-1",
      "validation-gate-1-2",
      "validation-gate-5",
    ]);
  });

  it("summarizes the PRPs of a folder, without other files, hidden folders and node_modules", async () => {
    const { check } = await folderWith({
      "plan/P1/PRP.md": GOOD,
      "plan/P2/PRP.md": prp("### Level 1: A\n\n```sh\ncurl -f <host> -v\n```", "### Level 2: B\n\nLook."),
      "PRPs/french.md": "# Titre\n\n## Validation\n\n### Niveau 1 : style\n\n```sh\ntrue\n```\n",
      "PRPs/no-gates.md": "# A\n\n## Goal\n\nG\n\n## Why\n\nW\n\n## Test\n\n```sh\ntrue\n```\n",
      "PRPs/README.md": "# How we write PRPs\n\n```sh\nls\n```\n",
      "plan/prp.json": JSON.stringify({ taskId: "J", validationGates: [{ level: 1, command: "true" }] }),
      "package.json": "{}",
      "README.md": "# A project\n\n## Verification\n\n```sh\ntrue\n```\n",
      ".hidden/PRP.md": GOOD,
      "node_modules/a/PRP.md": GOOD,
    });
    const { code, stdout } = await check(".");
    expect(code).toBe(1);
    expect(stdout).toBe(`PRPs/french.md: 1 gate
PRPs/no-gates.md: refused
  PRPs/no-gates.md names no validation gates: no section with code has a heading
    that says validation, so nothing can show that its work is done. Name the
    one that holds the gates (--section): "Test" (line 11).
plan/P1/PRP.md: 1 gate
plan/P2/PRP.md: refused
  Level 1, line 10: <host> is a placeholder that nobody has filled in
plan/prp.json: 1 gate

5 PRPs: 3 can be run, 3 gates; 2 refused.
`);
    const { prps, ...totals } = JSON.parse((await check(".", "--json")).stdout);
    expect(totals).toEqual({ read: 3, gates: 3, skipped: 0, warnings: 0, refused: 2 });
    expect(prps[1]).toMatchObject({ path: expect.stringMatching(/no-gates\.md$/), gates: [], code: "PRP_INVALID" });
    expect(prps[3]).toMatchObject({ taskId: "P1.M1", gates: [{ findings: [{ kind: "error", line: 10 }] }, {}] });
  });

  it("reports that a folder has no PRP", async () => {
    const { cwd, check } = await folderWith({ "README.md": "# A project\n" });
    expect(await check(".")).toEqual({ code: 3, stdout: "", stderr: `waymark: No PRP is in ${cwd}.\n` });
  });

  it("fits 80 columns and has no control characters, whatever the PRP contains", async () => {
    const long = `echo ${"很长".repeat(60)} ${"x".repeat(200)} ${"word ".repeat(40)}`;
    const { check } = await folderWith({
      "PRP.md": prp(
        `### Level 1: ${"标题".repeat(50)}\n\n\`\`\`bash\n\t${long}\nprintf '\u001b[2J\u202e'\ntrue\n\`\`\``,
      ),
    });
    const { code, stdout } = await check("PRP.md");
    expect(code).toBe(0);
    const { default: widthOf } = await import("string-width");
    for (const line of stdout.split("\n")) expect(widthOf(line)).toBeLessThanOrEqual(80);
    for (const unsafe of ["\u001b", "\u202e"]) expect(stdout).not.toContain(unsafe);
    expect(stdout.replace(/\s+/g, "")).toContain(long.replace(/\s+/g, ""));
  });
});

describe("waymark prp run", () => {
  const RISKY = prp(
    "### Level 1: A\n\n```bash\nrm -rf out\ntrue\n```",
    "### Level 2: B\n\n```python\nprint(1)\n```",
    "### Level 3: C\n\n```bash\ntrue\n```\n\n```powershell\ndir\n```",
  );

  it("shows the warnings of the check once, before it asks the coder", async () => {
    const { cwd } = await folderWith({ "PRP.md": RISKY });
    writeFileSync(join(cwd, "agent"), `${AGENT}echo asked >&2\n`, { mode: 0o755 });
    const { code, stderr } = await waymark({ cwd }, [
      "prp",
      "run",
      "PRP.md",
      "--coder",
      'echo \'{"result":"success","message":""}\'',
    ]);
    expect([code, stderr.split("\n").slice(0, 3)]).toEqual([
      0,
      [
        "warning: Level 1, line 10: rm -r: its effect outlasts the gate",
        "warning: Level 2, line 14: it is skipped: it only has python, which no shell runs",
        "warning: Level 3, line 27: a block of powershell isn't run",
      ],
    ]);
    expect(stderr.match(/^warning: /gm)).toHaveLength(3);
  });

  it("writes them as events with --json", async () => {
    const { cwd } = await folderWith({ "PRP.md": RISKY });
    const coder = `echo '{"result":"success","message":""}'`;
    const { code, stdout, stderr } = await waymark({ cwd }, ["prp", "run", "PRP.md", "--coder", coder, "--json"]);
    expect([code, stderr]).toEqual([0, ""]);
    const events = eventsIn(stdout);
    const text = "rm -r: its effect outlasts the gate";
    expect(events[0]).toEqual({ type: "warning", taskId: "P1.M1", level: 1, line: 10, text });
    expect(events.filter(({ type }) => type === "warning").map(({ level }) => level)).toEqual([1, 2, 3]);
    expect(events.findLastIndex(({ type }) => type === "warning")).toBe(2);
  });

  it.each([
    ["is no valid shell", "TestA()"],
    ["has a placeholder", "cat <file> more"],
  ])("refuses a PRP with a gate that %s before it asks the coder", async (_what, command) => {
    const { cwd } = await folderWith({ "PRP.md": prp(`### Level 1: A\n\n\`\`\`bash\nrm -rf x\n${command}\n\`\`\``) });
    const { code, stdout, stderr } = await waymark({ cwd }, [
      "prp",
      "run",
      "PRP.md",
      "--coder",
      "echo asked; touch asked",
    ]);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(
      /^waymark: PRP \/.*\/PRP\.md can't be executed\. Nothing was run; .* Level 1, line 11: .*\n$/,
    );
  });

  it("runs a PRP in JSON, and each gate of a repeated level", async () => {
    const validationGates = [
      { level: 1, command: "echo one >> log" },
      { level: "L1", command: "echo two >> log" },
    ];
    const { cwd } = await folderWith({ "prp.json": JSON.stringify({ taskId: "J1", objective: "G", validationGates }) });
    const coder = `echo '{"result":"success","message":""}'`;
    const { code, stdout } = await waymark({ cwd }, ["prp", "run", "prp.json", "--coder", coder, "--json"]);
    const saved = eventsIn(stdout).flatMap(({ stage }) => (typeof stage === "string" ? [stage] : []));
    expect([code, saved]).toEqual([
      0,
      ["pre-execution", "coder-response", "validation-gate-1", "validation-gate-1-2", "complete"],
    ]);
  });
});

const GOOD = prp("### Level 1: A\n\n```sh\ntrue\n```");

/** The first gate's heading is in line 7. */
function prp(...gates: readonly string[]): string {
  return `# Make it\n\n**PRP ID**: P1.M1\n\n## Validation Loop\n\n${gates.join("\n\n")}\n`;
}

async function folderWith(files: Readonly<Record<string, string>>) {
  const cwd = await tempFolder();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(cwd, name)), { recursive: true });
    writeFileSync(join(cwd, name), text);
  }
  return { cwd, check: (...args: string[]) => waymark({ cwd }, ["prp", "check", ...args]) };
}
