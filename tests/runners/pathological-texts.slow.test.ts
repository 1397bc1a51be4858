import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { tempFolder } from "../support/temp-folder.js";

const ROOT = join(import.meta.dirname, "..", "..");
const SIZE = 100_000;
const READ_PRP = `
  const { checkPrp } = await import("waymark-runners/prp");
  const read = async (path) => (await checkPrp(path)).gates;`;
const READ_PLAN = `
  const { loadPlan } = await import("waymark-runners/oneshot");
  const read = async (plan) => (await loadPlan({ featureId: "F01", baseDir: ".", plan })).workstreams;`;

/**
 * Reads a file in a process of its own, which ends with a test that takes too long. Returns the number of gates or
 * workstreams, or the error's message.
 */
async function read(name: string, text: string, signal: AbortSignal): Promise<string> {
  const path = join(await tempFolder(), name);
  await writeFile(path, text);
  const program = `${name.endsWith(".md") ? READ_PRP : READ_PLAN}
    await read(process.argv[1]).then(({ length }) => console.log(length), ({ message }) => console.log(message));`;
  const options = { cwd: ROOT, signal, killSignal: "SIGKILL", maxBuffer: 64 * SIZE } as const;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--input-type=module", "--eval", program, path],
    options,
  );
  return stdout.trim();
}

function repeated(unit: string, length = SIZE): string {
  return unit.repeat(Math.ceil(length / unit.length));
}

function withGate(text: string, command = "true"): string {
  return `${text}\n\n## Validation\n\n\`\`\`bash\n${command}\n\`\`\`\n`;
}

// The time grows with the size. If it grew with its square or faster, a test would take minutes, and run into its timeout.
describe("a PRP is read in seconds, if it", () => {
  it.for<[what: string, text: string, gates: number]>([
    ["has a line of 40 markers", withGate("-  ".repeat(40)), 1],
    ["consists of emphasis", withGate(repeated("*a_ ")), 1],
    ["consists of underlined headings", withGate(repeated("a\n===\n")), 1],
    ["consists of sections with gates", repeated("# Validation\n```\na\n```\n", 400_000), 17_392],
    ["consists of quotes", withGate(repeated("> a\nb\n")), 1],
    ["consists of lists", withGate(repeated("* a\n  * b\n")), 1],
    ["has a heading that consists of colons", withGate(`# a${repeated(" :")}b`), 1],
    ["has front matter with lists as keys", `---\na: 1\n${"? - ".repeat(1_000)}b\n---\n${withGate("")}`, 1],
    ["has front matter that consists of blanks", `---\n${repeated(" ")}\n---\n${withGate("")}`, 1],
    ["has a gate with half a placeholder", withGate("", `cat <A ${repeated("-a.", 180)}`), 1],
    ["has a gate of many statements", withGate("", repeated("a\n")), 1],
    ["has a gate of functions within functions", withGate("", `${repeated("a() ")}{ :; }`), 1],
    ["has a gate of files within files", withGate("", `cat ${repeated("<(")}`), 1],
    ["has a gate with a long comment", withGate("", `true # exits ${repeated(" ")}`), 1],
  ])("%s", async ([, text, gates], { signal }) => {
    expect(await read("PRP.md", text, signal)).toBe(String(gates));
  });
});

describe("a PRP is refused, if it", () => {
  it("has more than 512 KiB: the error has its size and the limit", async ({ signal }) => {
    const message = await read("PRP.md", withGate("x".repeat(512 * 1024)), signal);

    expect(message).toMatch(/PRP\.md has 524322 bytes, and a PRP may have 524288\. Nothing was run/);
  });

  it.for([
    ["nests quotes too deeply", withGate(`${"> ".repeat(40)}x`)],
    ["nests lists too deeply", withGate(`${"- ".repeat(40)}x`)],
  ] as const)("%s", async ([, text], { signal }) => {
    expect(await read("PRP.md", text, signal)).toMatch(
      /PRP\.md .* nests more than 9 lists or 18 quotes\. Nothing was run/,
    );
  });
});

describe("a plan is read or refused in seconds, if it", () => {
  it.for<[what: string, text: string, answer: RegExp]>([
    ["has lists within lists as a key", `${"? - ".repeat(1_000)}b`, /A key must be text at line 1, column 3/],
    ["consists of opening brackets", `a: ${repeated("[", 120_000)}`, /nested more than 64 deep at line 1, column 67/],
    ["consists of errors", `a: [${repeated("] ", 120_000)}`, /Unexpected flow-seq-end token.* at line 1, column 7/],
    [
      "has more than 128 KiB",
      `# ${"x".repeat(128 * 1024)}`,
      /plan\.yaml is not valid.*\n.*131074 characters of YAML are more than the limit of 131072/,
    ],
  ])("%s", async ([, text, answer], { signal }) => {
    expect(await read("plan.yaml", text, signal)).toMatch(answer);
  });

  it("has a long chain of workstreams in the wrong order", async ({ signal }) => {
    const workstreams = Array.from({ length: 100_000 }, (_, id) => ({
      id: `w${id}`,
      command: "true",
      dependsOn: id === 99_999 ? [] : [`w${id + 1}`],
    }));

    expect(await read("plan.json", JSON.stringify({ workstreams }), signal)).toBe("100000");
  });
});
