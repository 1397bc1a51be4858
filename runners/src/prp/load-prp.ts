import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { relative, resolve, sep } from "node:path";
import { describeCause, isError } from "waymark/kit";
import type { GateStage } from "waymark/prp";
import { PrpError } from "./errors.js";
import { findingsIn, whyNothingIsChecked } from "./gates/gate-findings.js";
import { readScripts } from "./gates/servers.js";
import { isInstalled } from "./gates/shells.js";
import { type ParsedGate, parsePrp } from "./parse-prp.js";
import { type CheckedDocument, checkDocument, describeDocument, type PrpDocument } from "./prp-document.js";
import type { LeftBlock } from "./reading/commands.js";

/** A gate that is ready to be run or skipped. */
export interface LoadedGate {
  readonly level: number;
  readonly description: string;
  readonly command: string | null;
  /**
   * The stage of the gate's checkpoint: `validation-gate-1`, and `validation-gate-1-2` for the second gate of level 1.
   */
  readonly stage: GateStage;
  /** The reason why the gate isn't run. */
  readonly skipped?: string;
  /** The line of the heading, from 1; absent if the PRP isn't Markdown. */
  readonly line?: number;
  /** For each line of the command, its line in the PRP, from 1. Empty if the PRP isn't Markdown. */
  readonly lines: readonly number[];
  /** The code blocks of the level that aren't run. */
  readonly left: readonly LeftBlock[];
}

/** A PRP that is ready to be executed. */
export interface LoadedPrp {
  readonly taskId: string;
  /** The path's id, under which a session may have begun this PRP. If the session has it, that task is continued. */
  readonly otherId?: string;
  /** The id to use if `taskId`, which comes from the title, belongs to another PRP of the session. */
  readonly pathId?: string;
  /** The absolute path; empty if the PRP was passed as an object. */
  readonly path: string;
  /** The heading of the section with the gates; absent if the PRP isn't Markdown. */
  readonly section?: string;
  /** The part of the prompt about the work itself. */
  readonly body: string;
  /** In the order of their levels. */
  readonly gates: readonly LoadedGate[];
  /** The SHA-256 of the text. */
  readonly digest: string;
}

/** How a PRP is read: the same when it is checked and when it is executed. */
export interface PrpReading {
  /** The task's name. Default: the PRP's own id, or else its path relative to the session's folder. */
  readonly taskId?: string | undefined;
  /** The heading of the section with the gates. Needed if no heading says validation, or several do. */
  readonly section?: string | undefined;
  /** The gates to leave out: levels such as `"2"`, or `"1-2"` for the second gate of level 1. */
  readonly skip?: readonly string[] | undefined;
  /** The only gates to run. Default: all. */
  readonly only?: readonly string[] | undefined;
}

/** The options for reading a PRP. */
export interface LoadOptions extends PrpReading {
  /** A PRP without an id is named by its path relative to this folder. */
  readonly sessionPath: string;
  /** The folder where the gates run. */
  readonly cwd: string;
}

/**
 * Reads a PRP, and checks that its gates can be run.
 *
 * @param prp - The document, or the path of its file: Markdown, or a document as JSON.
 * @throws {PrpError} `PRP_UNREADABLE`, or `PRP_INVALID`.
 */
export async function loadPrp(prp: PrpDocument | string, options: LoadOptions): Promise<LoadedPrp> {
  const loaded = await readPrp(prp, options);
  const problems = findProblems(loaded.gates);
  if (problems.length === 0) return loaded;
  const offer = offerToSkip(loaded.gates);
  const what = loaded.path === "" ? `PRP ${JSON.stringify(loaded.taskId)}` : `PRP ${loaded.path}`;
  throw new PrpError(
    "PRP_INVALID",
    `${what} can't be executed. Nothing was run; fix this, and execute it again:\n` +
      [...problems, ...(offer === undefined ? [] : [offer])].map((problem) => `  ${problem}`).join("\n"),
  );
}

/** Returns why these gates can't show that the work is done; empty if they can. */
export function findProblems(gates: readonly LoadedGate[]): string[] {
  if (gates.length === 0) return ["It has no validation gate."];
  if (gates.every(({ skipped }) => skipped !== undefined)) {
    return [
      "It has no gate that can be run.",
      ...gates.map(({ level, skipped }) => `Level ${level} is skipped: ${skipped}`),
    ];
  }
  return gates.flatMap((gate) =>
    findingsIn(gate)
      .filter(({ kind }) => kind === "error")
      .map(({ line, message }) => `Level ${gate.level}${line === undefined ? "" : `, line ${line}`}: ${message}`),
  );
}

/** If only some gates can't be run, returns how to run the others. */
export function offerToSkip(gates: readonly LoadedGate[]): string | undefined {
  const bad = gates.filter((gate) => findingsIn(gate).some(({ kind }) => kind === "error"));
  const others = gates.filter((gate) => !bad.includes(gate) && gate.skipped === undefined);
  if (bad.length === 0 || others.length === 0) return undefined;
  return `The other ${others.length === 1 ? "gate" : `${others.length} gates`} can be run: --skip ${bad.map(shortName).join(",")}`;
}

function shortName({ stage }: LoadedGate): string {
  return stage.slice("validation-gate-".length);
}

/** Reads a PRP without checking the commands of its gates. @throws {PrpError} */
export async function readPrp(prp: PrpDocument | string, options: LoadOptions): Promise<LoadedPrp> {
  if (typeof prp !== "string") return loadedDocument(checkDocument(prp, "The PRP"), "", options);
  const path = resolve(prp);
  const text = await readText(path);
  if (/\.json$/i.test(path) && options.section !== undefined) {
    throw new PrpError("PRP_INVALID", `The PRP ${path} is JSON, which has no sections (--section). Nothing was run.`);
  }
  if (/\.json$/i.test(path)) return loadedDocument(checkDocument(parseJson(text, path), path), path, options);
  const parsed = parsePrp(text, path, options.section);
  const ownPath = relative(resolve(options.sessionPath), path).replace(/\.[^./\\]*$/, "");
  const byPath = ownPath
    .split(sep)
    .filter((part) => part !== "..")
    .join("/");
  const ownId = options.taskId ?? parsed.ids.own;
  return {
    taskId: ownId ?? parsed.ids.workItem ?? byPath,
    ...(options.taskId === undefined ? { otherId: byPath } : undefined),
    ...(ownId === undefined ? { pathId: byPath } : undefined),
    path,
    section: parsed.section,
    body: text,
    gates: await withStages(
      parsed.gates.map((gate) => ({ ...gate, skipped: whySkipped(gate) })),
      options,
    ),
    digest: hash("sha256", text, "hex"),
  };
}

async function loadedDocument(document: CheckedDocument, path: string, options: LoadOptions): Promise<LoadedPrp> {
  const { prompt = describeDocument(document), validationGates } = document;
  const gates = validationGates.map(({ manual, ...gate }) => {
    const isIdle = gate.command === null || gate.command.split("\n").every((line) => /^\s*(?:#|$)/.test(line));
    const skipped = manual === true ? "a person checks it" : isIdle ? "it has no command" : undefined;
    return { ...gate, lines: [], left: [], skipped };
  });
  return {
    taskId: options.taskId ?? document.taskId,
    path,
    body: prompt,
    gates: await withStages(gates, options),
    digest: hash("sha256", prompt, "hex"),
  };
}

type FoundGate = Omit<LoadedGate, "stage" | "skipped"> & { readonly skipped: string | undefined };

async function withStages(gates: readonly FoundGate[], options: LoadOptions): Promise<LoadedGate[]> {
  const scripts = await readScripts(options.cwd);
  const seen = new Map<number, number>();
  const missing = (await isInstalled("bash")) ? undefined : "there is no bash in the folders of PATH";
  const loaded: LoadedGate[] = [];
  for (const { skipped, ...gate } of gates.toSorted((a, b) => a.level - b.level)) {
    const nth = (seen.get(gate.level) ?? 0) + 1;
    seen.set(gate.level, nth);
    const name = `${gate.level}${nth === 1 ? "" : `-${nth}`}`;
    const why = skipped ?? whyLeftOut(name, gate.level, options) ?? missing ?? whyNothingIsChecked(gate, scripts);
    loaded.push({
      ...gate,
      stage: `validation-gate-${name}`,
      ...(why === undefined ? undefined : { skipped: why }),
    });
  }
  assertKnown(loaded, options);
  return loaded;
}

function whyLeftOut(name: string, level: number, { skip = [], only }: LoadOptions): string | undefined {
  const isIn = (names: readonly string[]): boolean => names.some((each) => each === name || each === String(level));
  if (isIn(skip)) return "it is left out (--skip)";
  return only === undefined || isIn(only) ? undefined : "it isn't among those to run (--only)";
}

/** @throws {PrpError} No gate has a name of `skip` or `only`. */
function assertKnown(gates: readonly LoadedGate[], { skip = [], only = [] }: LoadOptions): void {
  const known = new Set(gates.flatMap((gate) => [String(gate.level), shortName(gate)]));
  const unknown = [...skip, ...only].find((name) => !known.has(name));
  if (unknown === undefined) return;
  throw new PrpError(
    "PRP_INVALID",
    `No gate of the PRP is ${JSON.stringify(unknown)} (--skip, --only). Nothing was run; name some of ${[...known].join(", ")}.`,
  );
}

function whySkipped({ command, left }: ParsedGate): string | undefined {
  if (command !== null) return undefined;
  const languages = [...new Set(left.filter(({ why }) => why.startsWith("other")).map(({ language }) => language))];
  return languages.length === 0
    ? "it has no command: a person checks it"
    : `it has ${languages.join(" and ")} alone, which no shell runs`;
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new PrpError("PRP_INVALID", `The PRP ${path} is no JSON: ${describeCause(cause)}. Nothing was run.`, {
      cause,
    });
  }
}

async function readText(path: string): Promise<string> {
  const bytes = await readBytes(path);
  if (bytes.length > MAX_BYTES) {
    const size = `has ${bytes.length} bytes, and a PRP may have ${MAX_BYTES}`;
    throw new PrpError(
      "PRP_INVALID",
      `The PRP ${path} ${size}. Nothing was run; split it, or take out what no gate needs.`,
    );
  }
  // The Markdown parser would take a BOM for text. A shell takes "\r" for a character.
  return bytes
    .toString("utf8")
    .replace(/^\ufeff/, "")
    .replaceAll("\r\n", "\n");
}

/** Five times the size of a long PRP. Reading a text of this size takes a few seconds at most, whatever it consists of. */
const MAX_BYTES = 512 * 1024;

async function readBytes(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (cause) {
    const isFolder = isError(cause) && "code" in cause && cause.code === "EISDIR";
    const reason = isFolder ? "it is a folder, and a PRP is a file" : describeCause(cause);
    const message = `The PRP ${path} can't be read: ${reason}. Nothing was run.`;
    throw new PrpError("PRP_UNREADABLE", message, { cause });
  }
}
