import { hash } from "node:crypto";
import { existsSync } from "node:fs";
import { delimiter, join, relative, resolve, sep } from "node:path";
import { checkTaskId, checkText, describeCause } from "waymark/kit";
import type { GateStage } from "waymark/prp";
import { z } from "zod";
import { checkOptions, nonEmpty } from "../options.js";
import { RunnerError, readDocument } from "../runner-error.js";
import { type GateInspection, inspectGate } from "./gates/inspect-gate.js";
import { readScripts } from "./gates/servers.js";
import { type ParsedGate, parsePrp } from "./parse-prp.js";
import { type CheckedDocument, checkDocument, type PrpDocument } from "./prp-document.js";

/** A gate that is ready to be run or skipped. */
export interface GateCheck extends ParsedGate, Pick<GateInspection, "statements" | "findings"> {
  /**
   * The stage of the gate's checkpoint: `validation-gate-1`, and `validation-gate-1-2` for the second gate of level 1.
   */
  readonly stage: GateStage;
}

/** The gates that a PRP would run, and the warnings about them. */
export interface PrpCheck {
  /** The absolute path; empty if the PRP was passed as an object. */
  readonly path: string;
  readonly taskId: string;
  /** The heading of the section with the gates; absent if the PRP is JSON. */
  readonly section?: string;
  /** The gates in the order in which they run. */
  readonly gates: readonly GateCheck[];
  /** The reasons why the PRP can't be executed, each with its line. Empty if it can be executed. */
  readonly problems: readonly string[];
  /** If only some gates can't be run: how to run the others. */
  readonly offer?: string | undefined;
}

/** A PRP that is ready to be executed. */
export interface LoadedPrp extends PrpCheck {
  /** The id made from the path. If the session began this PRP under that id, the task of that id is continued. */
  readonly otherId?: string;
  /** The id to use if `taskId`, which comes from the title, belongs to another PRP of the session. */
  readonly pathId?: string;
  /** The part of the prompt about the work itself. */
  readonly body: string;
  /** The SHA-256 of the text. */
  readonly digest: string;
}

/** Options for reading a PRP, the same for checking and for executing it. */
export interface PrpReading {
  /** The task's name. Default: the PRP's own id, or else its path relative to the session's folder. */
  readonly taskId?: string | undefined;
  /** The heading of the section with the gates. Needed if no heading, or more than one, says validation. */
  readonly section?: string | undefined;
  /** The gates to leave out: levels such as `"2"`, or `"1-2"` for the second gate of level 1. */
  readonly skip?: readonly string[] | undefined;
  /** The only gates to run. Default: all. */
  readonly only?: readonly string[] | undefined;
}

export interface CheckPrpOptions extends PrpReading {
  /** A PRP without an id is named by its path relative to this folder. Default: the current folder. */
  readonly sessionPath?: string | undefined;
  /** The folder where the gates run. Its package.json tells which scripts are servers. Default: the current folder. */
  readonly cwd?: string | undefined;
}

export const READING = {
  taskId: z.string().optional(),
  section: nonEmpty.optional(),
  skip: z.array(z.string()).readonly().optional(),
  only: z.array(z.string()).readonly().optional(),
} satisfies Record<keyof PrpReading, z.ZodType>;

const CheckSchema = z.strictObject({
  ...READING,
  sessionPath: nonEmpty.optional(),
  cwd: nonEmpty.optional(),
} satisfies Record<keyof CheckPrpOptions, z.ZodType>);

/**
 * Describes what executing a PRP would run. Runs nothing and writes nothing.
 *
 * @param path - The PRP's file: Markdown, or a `PrpDocument` as JSON.
 * @throws {RunnerError} `PRP_UNREADABLE`; or `PRP_INVALID`: no section holds the gates, several could, or the JSON
 *   isn't a `PrpDocument`.
 */
export async function checkPrp(path: string, options: CheckPrpOptions = {}): Promise<PrpCheck> {
  const checked = checkOptions("CheckPrpOptions", options, CheckSchema);
  checkText("A PRP's path", path, 1);
  if (checked.taskId !== undefined) checkTaskId(checked.taskId);
  const { body: _body, digest: _digest, otherId: _otherId, pathId: _pathId, ...check } = await readPrp(path, checked);
  return check;
}

/**
 * Reads a PRP, and checks that its gates can be run.
 *
 * @param prp - The document, or the path of its file: Markdown, or a document as JSON.
 * @throws {RunnerError} `PRP_UNREADABLE`, or `PRP_INVALID`.
 */
export async function loadPrp(prp: PrpDocument | string, options: CheckPrpOptions): Promise<LoadedPrp> {
  const loaded = await readPrp(prp, options);
  const { path, taskId, problems, offer } = loaded;
  if (problems.length === 0) return loaded;
  const what = path === "" ? `PRP ${JSON.stringify(taskId)}` : `PRP ${path}`;
  throw new RunnerError(
    "PRP_INVALID",
    `${what} can't be executed. Nothing was run; fix this, and execute it again:\n` +
      [...problems, ...(offer === undefined ? [] : [offer])].map((problem) => `  ${problem}`).join("\n"),
  );
}

/** Returns a gate's name for `--skip`: `1`, or `1-2` for the second gate of level 1. */
export function gateName(stage: string): string {
  return stage.slice("validation-gate-".length);
}

/** Reads a PRP without refusing gates that can't be run. @throws {RunnerError} */
export async function readPrp(prp: PrpDocument | string, options: CheckPrpOptions): Promise<LoadedPrp> {
  if (typeof prp !== "string") return loadedDocument(checkDocument(prp, "The PRP"), "", options);
  const path = resolve(prp);
  const text = await readText(path);
  if (/\.json$/i.test(path) && options.section !== undefined) {
    throw new RunnerError(
      "PRP_INVALID",
      `The PRP ${path} is JSON, which has no sections (--section). Nothing was run.`,
    );
  }
  if (/\.json$/i.test(path)) return loadedDocument(checkDocument(parseJson(text, path), path), path, options);
  const parsed = parsePrp(text, path, options.section);
  const ownPath = relative(resolve(options.sessionPath ?? "."), path).replace(/\.[^./\\]*$/, "");
  const byPath = ownPath
    .split(sep)
    .filter((part) => part !== "..")
    .join("/");
  const ownId = options.taskId ?? parsed.ids.own;
  return {
    path,
    taskId: ownId ?? parsed.ids.workItem ?? byPath,
    section: parsed.section,
    ...(await checkGates(parsed.gates, options)),
    ...(options.taskId === undefined ? { otherId: byPath } : undefined),
    ...(ownId === undefined ? { pathId: byPath } : undefined),
    body: text,
    digest: hash("sha256", text, "hex"),
  };
}

async function loadedDocument(document: CheckedDocument, path: string, options: CheckPrpOptions): Promise<LoadedPrp> {
  const { prompt = JSON.stringify(document, null, 2), validationGates } = document;
  const gates = validationGates.map(({ manual, ...gate }) => {
    const isIdle = gate.command === null || gate.command.split("\n").every((line) => /^\s*(?:#|$)/.test(line));
    const skipped = manual === true ? "a person checks it" : isIdle ? "it has no command" : undefined;
    return { ...gate, lines: [], left: [], skipped };
  });
  return {
    path,
    taskId: options.taskId ?? document.taskId,
    ...(await checkGates(
      gates.toSorted((a, b) => a.level - b.level),
      options,
    )),
    body: prompt,
    digest: hash("sha256", prompt, "hex"),
  };
}

/**
 * @param parsed - In the order of their levels.
 * @throws {RunnerError} `skip` or `only` names a gate that doesn't exist.
 */
async function checkGates(
  parsed: readonly ParsedGate[],
  options: CheckPrpOptions,
): Promise<Pick<PrpCheck, "gates" | "problems" | "offer">> {
  const scripts = await readScripts(options.cwd ?? ".");
  const folders = (process.env["PATH"] ?? "/usr/bin:/bin").split(delimiter);
  const hasShell = folders.some((folder) => existsSync(join(folder, "bash")));
  const whyNoShell = hasShell ? undefined : "there is no bash in the folders of PATH";
  const seen = new Map<number, number>();
  const gates = parsed.map((gate): GateCheck => {
    const nth = (seen.get(gate.level) ?? 0) + 1;
    seen.set(gate.level, nth);
    const name = `${gate.level}${nth === 1 ? "" : `-${nth}`}`;
    const { statements, findings, whyByHand } = inspectGate({ ...gate, command: gate.command ?? "" }, scripts);
    const skipped = gate.skipped ?? whyLeftOut(name, gate.level, options) ?? whyNoShell ?? whyByHand;
    return {
      ...gate,
      stage: `validation-gate-${name}`,
      statements,
      ...(skipped === undefined ? { findings } : { findings: [], skipped }),
    };
  });
  assertKnown(gates, options);
  return { gates, problems: findProblems(gates), offer: offerToSkip(gates) };
}

/** Returns the reasons why these gates can't show that the work is done; empty if they can show it. */
function findProblems(gates: readonly GateCheck[]): string[] {
  if (gates.length === 0) return ["It has no validation gate."];
  if (gates.every(({ skipped }) => skipped !== undefined)) {
    return [
      "It has no gate that can be run.",
      ...gates.map(({ level, skipped }) => `Level ${level} is skipped: ${skipped}`),
    ];
  }
  return gates.flatMap(({ level, findings }) =>
    findings
      .filter(({ kind }) => kind === "error")
      .map(({ line, message }) => `Level ${level}${line === undefined ? "" : `, line ${line}`}: ${message}`),
  );
}

/** If only some gates can't be run, returns how to run the others. */
function offerToSkip(gates: readonly GateCheck[]): string | undefined {
  const bad = gates.filter(({ findings }) => findings.some(({ kind }) => kind === "error"));
  const others = gates.filter((gate) => !bad.includes(gate) && gate.skipped === undefined);
  if (bad.length === 0 || others.length === 0) return undefined;
  const names = bad.map(({ stage }) => gateName(stage)).join(",");
  return `The other ${others.length === 1 ? "gate" : `${others.length} gates`} can be run: --skip ${names}`;
}

function whyLeftOut(name: string, level: number, { skip = [], only }: PrpReading): string | undefined {
  const isIn = (names: readonly string[]): boolean => names.some((each) => each === name || each === String(level));
  if (isIn(skip)) return "it is left out (--skip)";
  return only === undefined || isIn(only) ? undefined : "it isn't among the gates to run (--only)";
}

/** @throws {RunnerError} `skip` or `only` names a gate that doesn't exist. */
function assertKnown(gates: readonly GateCheck[], { skip = [], only = [] }: PrpReading): void {
  const known = new Set(gates.flatMap((gate) => [String(gate.level), gateName(gate.stage)]));
  const unknown = [...skip, ...only].find((name) => !known.has(name));
  if (unknown === undefined) return;
  throw new RunnerError(
    "PRP_INVALID",
    `No gate of the PRP is ${JSON.stringify(unknown)} (--skip, --only). Nothing was run; name some of ${[...known].join(", ")}.`,
  );
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RunnerError("PRP_INVALID", `The PRP ${path} isn't JSON: ${describeCause(cause)}. Nothing was run.`, {
      cause,
    });
  }
}

async function readText(path: string): Promise<string> {
  const bytes = await readDocument("PRP", path);
  if (bytes.length > MAX_BYTES) {
    const size = `has ${bytes.length} bytes, and a PRP may have ${MAX_BYTES}`;
    throw new RunnerError(
      "PRP_INVALID",
      `The PRP ${path} ${size}. Nothing was run; split it, or take out what no gate needs.`,
    );
  }
  // The Markdown parser would read a BOM as text, and a shell reads "\r" as a part of a word.
  return bytes
    .toString("utf8")
    .replace(/^\ufeff/, "")
    .replaceAll("\r\n", "\n");
}

/** Five times the size of a long PRP. Reading any text of this size takes a few seconds at most. */
const MAX_BYTES = 512 * 1024;
