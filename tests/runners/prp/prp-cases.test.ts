import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkPrp } from "../../../runners/src/prp/load-prp.js";
import { parsePrp } from "../../../runners/src/prp/parse-prp.js";
import { countingCoder, Session } from "./session.js";

const CASES = new URL("../../fixtures/prp-cases/", import.meta.url).pathname;
const caseFile = (name: string) => join(CASES, `${name}.md`);

/** The levels and commands that a person sees in each file. */
const READ: Readonly<Record<string, readonly (readonly [level: number, command: string | null])[]>> = {
  bold: [[1, "true"]],
  chinese: [[1, "true"]],
  console: [[1, "true"]],
  dashes: [[1, "true"]],
  expectedblock: [[1, "true"]],
  gates: [[1, "true"]],
  grepnone: [[1, "echo fine | grep -i warning\n# Expected: no output"]],
  h1loop: [[1, "true"]],
  level5: [
    [1, "true"],
    [5, "true"],
  ],
  nested: [[1, "true"]],
  oneblock: [
    [1, "# Level 1: style\ntrue"],
    [2, "# Level 2: tests\ntrue"],
  ],
  python: [
    [1, "true"],
    [2, null],
  ],
};

/** PRPs whose gates can't be run, with a part of the refusal. */
const REFUSED: Readonly<Record<string, RegExp>> = {
  syntax: /line 19.*isn't valid shell/,
  placeholder: /line 12.*<owner> is a placeholder/,
};

describe("shortened PRPs from people", () => {
  it.each(Object.entries(READ))("%s has the gates that a person sees", async (name, expected) => {
    const { gates } = parsePrp(await readFile(caseFile(name), "utf8"), caseFile(name));

    expect(gates.map(({ level, command }) => [level, command])).toEqual(expected);
  });

  it.each(Object.entries(REFUSED))("%s is refused before the coder is asked", async (name, message) => {
    const session = await Session.create();
    const coder = countingCoder();

    await expect(session.executor({ coder }).execute(caseFile(name))).rejects.toMatchObject({
      code: "PRP_INVALID",
      message: expect.stringMatching(message),
    });
    expect(coder.calls).toBe(0);
  });

  it("grepnone's search is shown as it should be written", async () => {
    const { gates } = await checkPrp(caseFile("grepnone"));
    expect(gates[0]?.findings).toMatchObject([{ message: expect.stringContaining("! echo fine | grep -i warning") }]);
  });

  it("python's second level is named as one that can't be run", async () => {
    const { gates } = await checkPrp(caseFile("python"));
    expect(gates[1]).toMatchObject({ level: 2, skipped: "it only has python, which no shell runs" });
  });
});
