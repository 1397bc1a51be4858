import { describe, expect, it } from "vitest";
import { parsePrp } from "../../../../runners/src/prp/parse-prp.js";
import { fence, markdown } from "./markdown.js";

const LOOP = markdown("## Validation Loop", "### Level 1: A", fence("bash", "true"));

function idOf(top: string): string | undefined {
  const { own, workItem } = parsePrp(`${top}\n\n${LOOP}`, "PRP.md").ids;
  return own ?? workItem;
}

describe("a PRP's id", () => {
  it.each([
    "# A title\n\n**PRP ID**: A_1 b",
    "# A title\n\n**PRP ID:** A_1 b",
    "# A title\n\nPRP ID: `A_1 b`",
    "# A title\n\n- **PRP ID**: A_1 b",
    "# A title\n\n## Metadata\n\nAuthor: me\n**PRP-ID**: A_1 b\nStatus: x",
    "---\nid: A_1 b\n---\n\n# P1.M1: a title",
    '---\nprp_id: "A_1 b"\nauthor: me\n---',
  ])("stands near the top: %j", (top) => {
    expect(idOf(top)).toBe("A_1 b");
  });

  it.each([
    ["# P1.M2.T1.S1: a parser", "P1.M2.T1.S1"],
    ["# PRP: P1.M2.T1.S1 - a parser", "P1.M2.T1.S1"],
    ["# PRP: a parser (P1.M2)", "P1.M2"],
    ["# A parser\n\n**Work Item**: P1.M2.T1.S1 — a parser", "P1.M2.T1.S1"],
    ["# A parser\n\n- **Work Item ID:** `P1.M2.T1.S1`", "P1.M2.T1.S1"],
    ["# A parser\n\nTask: P1.M2.T1.S1", "P1.M2.T1.S1"],
    ['---\nname: "P1.M2.T1.S1 — a parser (after P1.M1)"\n---\n\n## Goal', "P1.M2.T1.S1"],
    ['name: "P1.M2.T1.S1 — a parser"\ndescription: |\n  It follows P1.M1.\n---\n\n## Goal', "P1.M2.T1.S1"],
  ])("is the work item of the title: %j", (top, id) => {
    expect(idOf(top)).toBe(id);
  });

  it.each([
    "# A parser",
    "# Phase 1: a parser",
    "---\nnot: [yaml\n---\n\n# A parser",
    "# A parser\n\nSee P1.M2.T1.S1.",
    "---\n\n## Goal\n\nid: A_1 b\n\n---",
  ])("isn't guessed: %j", (top) => {
    expect(idOf(top)).toBeUndefined();
  });

  it("isn't looked for below the top", () => {
    expect(idOf(`# A parser\n\n${"A line.\n\n".repeat(30)}PRP ID: other`)).toBeUndefined();
  });
});
