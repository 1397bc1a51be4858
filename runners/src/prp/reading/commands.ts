import type { Statement } from "unbash";
import { GateSyntaxError, parseCommand } from "../gates/gate-script.js";
import { type CodeBlock, numberIn, type OutlineItem, plain } from "./outline.js";

/** The command in a level's code blocks. */
export interface LevelCommand {
  /** An entry for each line of the command, with its line number in the Markdown, from 1. */
  readonly lines: readonly CommandLineOf[];
  /** Blocks that aren't run: those of other languages, or about what to do after a failure. */
  readonly left: readonly LeftBlock[];
}

export interface CommandLineOf {
  readonly text: string;
  readonly line: number;
}

export interface LeftBlock {
  readonly line: number;
  readonly language: string;
  readonly why: "other language" | "other shell" | "output" | "after a failure" | "by hand";
}

const SESSIONS = new Set(["console", "terminal", "shell-session", "shellsession"]);
/** The languages of blocks that bash runs: it detects more failures than sh. */
const SHELLS = new Set(["bash", "sh", "shell", "shellscript", "zsh", ...SESSIONS]);
const OTHER_SHELLS = new Set(["fish", "powershell", "pwsh", "ps1", "cmd", "bat", "batch", "nu", "csh", "tcsh"]);

/** Returns the command of a level's items. The level's own heading may be the first item. */
export function findCommand(items: readonly OutlineItem[]): LevelCommand {
  const lines: CommandLineOf[] = [];
  const left: LeftBlock[] = [];
  let leftDepth = Number.POSITIVE_INFINITY;
  let before = "";
  let beforeKind: OutlineItem["kind"] = "code";
  for (const item of items) {
    if (item.kind === "heading" && item.depth <= leftDepth) {
      leftDepth = isAfterFailure(item.text) ? item.depth : Number.POSITIVE_INFINITY;
    }
    if (item.kind === "code") {
      const isLeft = leftDepth < Number.POSITIVE_INFINITY || (/[:：]$/.test(before) && isAfterFailure(before));
      const byHand = beforeKind === "prose" && BY_HAND.test(before) ? "by hand" : undefined;
      const why = isLeft ? "after a failure" : (byHand ?? whyNotRun(item, before, lines.length > 0));
      if (why === undefined) {
        for (const line of findLines(item)) lines.push(line);
      } else left.push({ line: item.line, language: item.language, why });
    }
    before = item.kind === "code" ? "" : item.text;
    beforeKind = item.kind;
  }
  const runs = lines.some(({ text }) => /^\s*[^#\s]/.test(text));
  return { lines: runs ? lines : [], left };
}

export function hasCommand(items: readonly OutlineItem[]): boolean {
  return findCommand(items).lines.length > 0;
}

/** Matches "If it fails", "Rollback", "Troubleshooting" at the beginning only, since a test may be about a rollback. */
const AFTER_FAILURE =
  /^(?:(?:if|when|on|upon|wenn|falls|bei|si|se|en cas|em caso|en caso|при|если)\b.{0,60}(?:fail|error|broke|wrong|fehl|schlag|echou|falla|falha|erro|echec|ошиб|сбо)|(?:如果|若|当).{0,20}(?:失败|失敗|出错|错误)|失败|失敗|실패|roll-?\s?back|troubleshoot|fehlerbehebung|depannage|solu(?:cion|cao) de problemas|устранени|откат|回滚|故障|ロールバック|トラブル)/u;

/** Matches a sentence that introduces what a person does: "By hand, once:", "Check it manually in the browser:". */
const BY_HAND = /\b(?:by hand|manually|in (?:a|the|your) browser)\b.*[:：]$|^manual\b.*[:：]$/i;

/** Whether a text introduces what to do after a failure. The heading of a level never does, whatever its words are. */
export function isAfterFailure(text: string): boolean {
  return AFTER_FAILURE.test(plain(text).replace(/^[^\p{L}]+/u, "")) && numberIn(text)?.isNamed !== true;
}

const OUTPUT =
  /expect|output|results?\b|should|erwart|ausgabe|esperad|salida|saida|attendu|sortie|预期|期望|输出|期待|出力|예상|출력|ожида|вывод/;

function whyNotRun({ language, text }: CodeBlock, before: string, hasCommand: boolean): LeftBlock["why"] | undefined {
  if (SHELLS.has(language)) return undefined;
  if (OTHER_SHELLS.has(language)) return "other shell";
  if (language !== "") return "other language";
  return !hasCommand && !OUTPUT.test(plain(before)) && isCommand(text) ? undefined : "output";
}

/**
 * Whether a block without a language reads like a command: each statement begins with a word that may name a program.
 */
function isCommand(text: string): boolean {
  const commands = statementsIn(withoutPrompts(text));
  if (commands.length === 0) return false;
  return commands.every(({ command }) => {
    const name = command.type === "Command" ? command.name?.value : "";
    return name === undefined || /^(?:\d?[a-z_][a-z0-9_+.-]*|(?:\.{0,2}|~|[\w.-]+)\/[\w./-]+|)$/.test(name);
  });
}

/** Returns no statements if the text isn't valid shell. */
function statementsIn(text: string): readonly Statement[] {
  try {
    return parseCommand(text).commands;
  } catch (error) {
    if (error instanceof GateSyntaxError) return [];
    throw error;
  }
}

function withoutPrompts(text: string): string {
  return text.replace(/^(?:\$|%|❯)[ \t]+/gm, "");
}

/** Returns the lines to run. In a session, these are the lines after its prompts; all other lines are output. */
function findLines({ text, line, language }: CodeBlock): CommandLineOf[] {
  const all = text.split("\n").map((each, index) => ({ text: each, line: line + index }));
  const [first = ""] = all.map((each) => each.text).filter((each) => /^\s*[^\s#]/.test(each));
  const prompt = PROMPT.exec(first)?.[1];
  if (prompt === undefined || !(SESSIONS.has(language) || prompt === "$")) return all;
  let goesOn = false;
  return all.flatMap((each) => {
    const [, begun, rest = ""] = PROMPT.exec(each.text) ?? [];
    const isMore = goesOn && begun !== prompt;
    if (begun !== prompt && !isMore) return [];
    const run = isMore ? each.text.replace(/^>[ \t]/, "") : rest;
    goesOn = /\\$/.test(run);
    return [{ text: run, line: each.line }];
  });
}

const PROMPT = /^\s*(?:\([\w.-]+\)[ \t]*)?[\w@~:./-]*([$%❯>#])[ \t]+(.*)$/su;
