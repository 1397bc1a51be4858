import { describe, expect, it } from "vitest";
import { parsePrp } from "../../../../runners/src/prp/parse-prp.js";
import { RunnerError } from "../../../../runners/src/runner-error.js";
import { fence, markdown } from "./markdown.js";

const SETUP = ["## Setup", fence("bash", "npm ci")];
const LEVEL = ["### Level 1: A", fence("bash", "true")];

function commands(blocks: readonly string[], section?: string): (string | null)[] {
  return parsePrp(markdown("# A PRP", ...blocks), "PRP.md", section).gates.map(({ command }) => command);
}

function refusal(blocks: readonly string[], section?: string): string {
  try {
    commands(blocks, section);
  } catch (error) {
    if (error instanceof RunnerError && error.code === "PRP_INVALID") return error.message;
    throw error;
  }
  throw new Error("The PRP was read");
}

describe("the section with a PRP's gates", () => {
  it.each([
    ...[
      "Validation Loop",
      "Validation Gates",
      "Validation Commands",
      "4. Validation Strategy",
      "🧪 Testing & Validation",
    ],
    ...["Verification", "验证循环", "驗證", "Bucle de validación", "Loop de Validação", "Verificação", "Validierung"],
    ...[
      "Überprüfung",
      "Boucle de validation",
      "Vérification",
      "検証ループ",
      "유효성 검사 루프",
      "검증",
      "Цикл валидации",
      "Проверка",
    ],
    ...["Перевірка", "Ciclo di validazione", "Pętla walidacji", "Doğrulama", "Validatie", "Validasi"],
  ])("has a heading with the word validation: %s", (heading) => {
    expect(commands([...SETUP, `## ${heading}`, ...LEVEL])).toEqual(["true"]);
  });

  it.each(["### Validation Loop", "##### Validation Loop", "**Validation Loop**"])(
    "may be of any depth: %s",
    (heading) => {
      expect(commands([...SETUP, heading, fence("bash", "true")])).toEqual(["true"]);
    },
  );

  it("may be the title, if the parts of the text are levels", () => {
    expect(
      parsePrp(markdown("# Validation Loop", "## Level 1: A", fence("bash", "true")), "PRP.md").gates,
    ).toHaveLength(1);
  });

  it("isn't a title that speaks of validation", () => {
    const text = markdown("# PRP: email validation", ...SETUP, "## Validation Loop", ...LEVEL);

    expect(parsePrp(text, "PRP.md")).toMatchObject({ section: "Validation Loop", gates: [{ command: "true" }] });
    expect(() => parsePrp(markdown("# PRP: email validation", ...SETUP), "PRP.md")).toThrow(/"Setup" \(line 3\)/);
  });

  it("is the loop, if other sections mention validation too", () => {
    const blocks = ["## Input validation", fence("ts", "check(x)"), "## Validation Loop", ...LEVEL];

    expect(commands([...blocks, "## Final Validation Checklist", "- [ ] Done", fence("bash", "npm run all")])).toEqual([
      "true",
    ]);
  });

  it("is the one with commands, if others have only code", () => {
    expect(
      commands(["## Input validation", fence("ts", "check(x)"), "## Validation", fence("bash", "npm test")]),
    ).toEqual(["npm test"]);
  });

  it("may come once for each part of the work", () => {
    const part = (n: number) => [
      `### Task ${n}`,
      fence("bash", `npm run setup-${n}`),
      "**Validation:**",
      fence("bash", `test-${n}`),
    ];

    expect(commands([...part(1), ...part(2)])).toEqual(["test-1", "test-2"]);
  });

  it.each([
    ["a step", "### 3. Deploy", "**2. Verify the configuration:**"],
    ["a level", "### Other", "### Level 4: Final validation"],
  ])("isn't %s that says so", (_what, before, heading) => {
    expect(refusal([before, fence("bash", "deploy"), heading, fence("bash", "check")])).toMatch(
      /no section .* says validation/,
    );
  });

  it("is refused without such a heading, with the sections that could be meant", () => {
    const message = refusal([
      ...SETUP,
      "## Notes",
      "None.",
      "## Tests",
      fence("bash", "npm test"),
      "## Code",
      fence("ts", "x"),
    ]);

    expect(message).toMatch(/"Setup" \(line 3\), "Tests" \(line 13\)\.$/);
  });

  it("is refused with both, if two could be meant", () => {
    const blocks = ["## Schema validation", fence("bash", "a"), "## Output validation", fence("bash", "b")];

    expect(refusal(blocks)).toMatch(
      /more than one section .*"Schema validation" \(line 3\), "Output validation" \(line 9\)/,
    );
    expect(commands(blocks, "Output validation")).toEqual(["b"]);
  });

  it.each(["Tests", "tests", "  Tests: "])("is the one that the caller names: %j", (name) => {
    expect(
      commands([...SETUP, "## Tests", fence("bash", "npm test"), "## All tests", fence("bash", "no")], name),
    ).toEqual(["npm test"]);
  });

  it("is refused if the caller's name fits none, or several", () => {
    const blocks = ["## Unit tests", fence("bash", "a"), "## Browser tests", fence("bash", "b")];

    expect(refusal(blocks, "Deploy")).toMatch(/no section with code has the heading "Deploy".*"Unit tests"/);
    expect(refusal(blocks, "tests")).toMatch(/more than one section/);
    expect(commands(blocks, "browser")).toEqual(["b"]);
  });

  it("isn't inside a quoted PRP", () => {
    const quoted = fence("markdown", "## Validation Loop\n\n### Level 1: no");
    const longer = `~~~~md\n## Validation Loop\n\n${fence("bash", "no")}\n~~~~`;

    expect(
      commands([
        quoted,
        longer,
        `> ## Validation Loop\n>\n> ${fence("bash", "no").replaceAll("\n", "\n> ")}`,
        "## Validation Loop",
        ...LEVEL,
      ]),
    ).toEqual(["true"]);
  });

  it("is found beside dividers, long tables of contents and front matter", () => {
    const contents = Array.from({ length: 200 }, (_, n) => `- [Part ${n}](#validation-${n})`).join("\n");
    const dividers = ["-".repeat(60), "- ".repeat(60).trim(), "=".repeat(80), "* * *", `> ${"-".repeat(60)}`];
    const text = `---\nname: x\n---\n${markdown("# A PRP", contents, ...dividers.map((divider) => `text\n\n${divider}`), fence("", dividers.join("\n")), "## Validation Loop", ...LEVEL)}`;

    expect(parsePrp(text, "PRP.md").gates).toMatchObject([{ command: "true" }]);
  });
});

describe("a refusal says why", () => {
  it.each([
    [
      "text behind the closing marks",
      "```yaml\n- a\n```text",
      /fence of line 5 isn't closed: line 7 has text after its marks\. .*"Validation Loop" of line 9/,
    ],
    ["no closing marks", "~~~\ncode", /fence of line 5 isn't closed\. .*"Validation Loop" of line 8/],
  ])("where a fence has %s", (_what, open, why) => {
    expect(refusal(["## Context", open, "## Validation Loop", ...LEVEL])).toMatch(why);
  });

  it("where a fence among the gates has the other gates in it", () => {
    const open = "```bash\nnpm test\n```text";
    expect(refusal(["## Validation Loop", ...LEVEL, "### Level 2: B", open, "### Level 3: C", "Look."])).toMatch(
      /"Level 3: C"/,
    );
  });

  it("but not where the last fence has comments alone", () => {
    expect(commands(["## Validation Loop", "### Level 1: A", "```bash\n\n## the tests\nnpm test"])).toEqual([
      "\n## the tests\nnpm test",
    ]);
  });

  it("where the section has its commands in its text alone, and offers neither steps nor rollbacks", () => {
    const steps = ["## Step 1: Back up", fence("bash", "cp a b"), "## Rollback", fence("bash", "mv b a")];
    const text = refusal([...steps, "## Validation Checklist", "- [ ] `npm run build` passes\n- [ ] The page opens"]);
    expect(text).toContain(
      '"Validation Checklist" (line 15) has no block of commands, only `npm run build` in its text.',
    );
    expect(text).not.toMatch(/Step 1|Rollback/);
  });

  it("where the text is a story of another method, unless its section is named", () => {
    const story = [
      "# Story 1.1: Start",
      "## Acceptance Criteria",
      "1. It starts.",
      "**Validation Commands:**",
      fence("bash", "make up"),
    ];
    const read = (section?: string) =>
      parsePrp(markdown(...story), "PRP.md", section).gates.map(({ command }) => command);
    expect(() => read()).toThrow(/story of the BMAD method/);
    expect(read("Validation Commands")).toEqual(["make up"]);
  });
});

describe("a block for a person", () => {
  it.each(["By hand, once:", "Check it manually in the browser:", "Manual test:", "Open it in your browser:"])(
    "isn't run below the sentence %j, and no list item above names it",
    (sentence) => {
      const blocks = [
        "## Validation Loop",
        fence("bash", "make verify"),
        "- **ends on cancel**: assert no call.",
        sentence,
      ];
      expect(commands([...blocks, fence("bash", "kill -9 <pid>")])).toEqual(["make verify"]);
    },
  );

  it("names the gate below a list by the section, not by the list's last item", () => {
    const blocks = ["## Validation Loop", "- It ends on cancel", "Then run:", fence("bash", "make verify")];
    const { gates } = parsePrp(markdown("# A PRP", ...blocks), "PRP.md");
    expect(gates.map(({ description }) => description)).toEqual(["Validation Loop"]);
  });
});
