import { fromMarkdown } from "mdast-util-from-markdown";
import { toString as textOf } from "mdast-util-to-string";
import { PrpError } from "./errors.js";
import type { PrpGate } from "./prp-document.js";

/** What a PRP's Markdown says to the executor. */
export interface ParsedPrp {
  /** From its line "PRP ID: …". */
  readonly taskId: string | undefined;
  readonly gates: readonly PrpGate[];
}

/**
 * Reads a PRP's id and its gates: the headings "Level 1: …" to "Level 4: …" under "Validation Loop". A level's fenced
 * blocks together are its command; `bash` runs under bash, `sh`, `shell` and no language under sh, and what stands
 * beside them in other languages (expected output, examples) isn't run. A level without a block is for a person to
 * check.
 *
 * @param path - For messages.
 * @throws {PrpError} `PRP_INVALID`: a level comes twice, isn't one of 1 to 4, or has code but none that is run; or the
 *   levels stand in two Validation Loops.
 */
export function parsePrp(markdown: string, path: string): ParsedPrp {
  if (markdown.length > MAX_LENGTH || NESTED.test(markdown)) {
    throw new PrpError(
      "PRP_INVALID",
      `${path} can't be read as a PRP: it has more than ${MAX_LENGTH} characters, or a line in more than 50 quotes or lists.`,
    );
  }
  const root = fromMarkdown(markdown);
  const loops = validationLoopsOf(root.children)
    .map((loop) => levelsOf(loop, path))
    .filter((found) => found.length > 0);
  const [levels = [], another] = loops;
  if (another !== undefined) {
    throw new PrpError("PRP_INVALID", `${path} has two "Validation Loop" sections with levels. Put them into one.`);
  }
  const twice = levels.find(({ level }, i) => levels.some((other, j) => j > i && other.level === level));
  if (twice !== undefined) {
    throw new PrpError("PRP_INVALID", `${path} has "Level ${twice.level}" twice in its Validation Loop.`);
  }
  return {
    taskId: taskIdOf(root),
    gates: levels.map(({ level, title, blocks }) => {
      const gate = gateOf(level, title, blocks.flatMap(codeIn), markdown);
      if (gate !== undefined) return gate;
      throw new PrpError(
        "PRP_INVALID",
        `${path} has code under "Level ${level}" in its Validation Loop, but none that is run: fenced blocks in sh, ` +
          "shell, bash or no language are. A level for a person to check has no code block.",
      );
    }),
  };
}

const MAX_LENGTH = 1024 * 1024;
/** Deeply nested quotes and lists take ever longer to parse, and walking them recurses. */
const NESTED = /^[ \t]*(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]*){50}/m;

type Root = ReturnType<typeof fromMarkdown>;
type Block = Root["children"][number];
type Code = Extract<Block, { type: "code" }>;

interface Level {
  readonly level: PrpGate["level"];
  readonly title: string;
  readonly blocks: readonly Block[];
}

/** The shell for each language that is one. */
const SHELLS: Readonly<Record<string, "sh" | "bash">> = { bash: "bash", sh: "sh", shell: "sh", "": "sh" };

/** What is under each heading "Validation Loop" that isn't itself in such a section. */
function validationLoopsOf(blocks: readonly Block[]): (readonly Block[])[] {
  const start = blocks.findIndex(
    (block) => block.type === "heading" && /^[^a-z]*validation loop\b/i.test(textOf(block)),
  );
  if (start === -1) return [];
  const loop = sectionAt(blocks, start);
  return [loop, ...validationLoopsOf(blocks.slice(start + 1 + loop.length))];
}

function levelsOf(loop: readonly Block[], path: string): Level[] {
  return loop.flatMap((block, at) => {
    if (block.type !== "heading") return [];
    const found = /^[^a-z]*level\s+(\d+)\b[\s:.–—-]*(.*)$/is.exec(textOf(block));
    if (found === null) return [];
    const level = Number(found[1]);
    if (level !== 1 && level !== 2 && level !== 3 && level !== 4) {
      throw new PrpError("PRP_INVALID", `${path} has a "Level ${level}" in its Validation Loop; there are 1 to 4.`);
    }
    return [{ level, title: found[2] || `Level ${level}`, blocks: sectionAt(loop, at) }];
  });
}

/** What is under the heading at `start`: everything up to the next heading of its level or above. */
function sectionAt(blocks: readonly Block[], start: number): readonly Block[] {
  const heading = blocks[start];
  if (heading?.type !== "heading") return [];
  const after = blocks.slice(start + 1);
  const end = after.findIndex((block) => block.type === "heading" && block.depth <= heading.depth);
  return end === -1 ? after : after.slice(0, end);
}

/** The code blocks in a block, at any depth: steps of a numbered list hold their commands inside. */
function codeIn(block: Block): Code[] {
  if (block.type === "code") return [block];
  return "children" in block ? block.children.flatMap(codeIn) : [];
}

/** The level's gate; `undefined` if it has code blocks but no command. */
function gateOf(
  level: PrpGate["level"],
  description: string,
  blocks: readonly Code[],
  markdown: string,
): PrpGate | undefined {
  const commands = blocks.flatMap((block) => {
    // Four blanks make a code block too, but mostly by accident: only fenced ones count.
    const fenced = /^[`~]/.test(markdown.slice(block.position?.start.offset));
    const shell = fenced ? SHELLS[(block.lang ?? "").toLowerCase()] : undefined;
    return shell === undefined ? [] : [{ shell, text: block.value }];
  });
  if (commands.length === 0) return blocks.length === 0 ? { level, description, command: null } : undefined;
  // What is written for sh runs under bash as well; not the other way round.
  const shell = commands.some((command) => command.shell === "bash") ? "bash" : "sh";
  return { level, description, command: commands.map(({ text }) => text).join("\n"), shell };
}

function taskIdOf(root: Root): string | undefined {
  for (const block of root.children) {
    if (block.type !== "paragraph") continue;
    for (const line of textOf(block).split("\n")) {
      const found = /^PRP ID\s*:\s*(\S.*)$/i.exec(line.trim());
      if (found !== null) return found[1];
    }
  }
  return undefined;
}
