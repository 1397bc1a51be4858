import { access, readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import {
  type CST,
  type Document,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type ParsedNode,
  Parser,
  parseDocument,
} from "yaml";
import { nameOf } from "../../adapters/files/task-folder.js";
import { OneshotError, type PlanIssue } from "./errors.js";
import { type CheckedWorkstream, checkPlan, type OneshotPlan, type PlanComplaint } from "./plan.js";

/** A plan, ready to be run. */
export interface LoadedPlan {
  readonly workstreams: readonly CheckedWorkstream[];
  /** Its file, seen from the base folder; absent where the plan came as an object. */
  readonly file?: string;
}

/** Where a plan may come from. */
export interface PlanSource {
  readonly featureId: string;
  /** The project's folder, absolute. */
  readonly baseDir: string;
  /** The plan, or the path of its file. Without it: see `recorded`. */
  readonly plan: OneshotPlan | string | undefined;
  /** The file that the checkpoint names, seen from the base folder. Without it: the feature's file in `.sdp/plans`. */
  readonly recorded: string | undefined;
}

/** Far more than a plan has. Where the composer comes to the end of the stack, V8 may end the whole process. */
const MAX_NESTING = 100;
const MAX_BYTES = 16 * 1024 * 1024;
const EXTENSIONS = [".yaml", ".yml", ".json"];

/**
 * Finds, reads and checks a plan.
 *
 * @throws {OneshotError} `PLAN_UNREADABLE`, or `PLAN_INVALID` with everything that is wrong, by line.
 */
export async function loadPlan(source: PlanSource): Promise<LoadedPlan> {
  const { baseDir, plan, recorded } = source;
  if (plan !== undefined && typeof plan !== "string") return checkedObject(plan);
  const path = plan ?? (recorded === undefined ? await findPlan(source) : resolve(baseDir, recorded));
  return { workstreams: parsePlan(await readPlan(path), path), file: relative(baseDir, resolve(path)) };
}

/**
 * Reads a plan from YAML or JSON.
 *
 * @param path - For messages.
 * @throws {OneshotError} `PLAN_INVALID`.
 */
export function parsePlan(source: string, path: string): readonly CheckedWorkstream[] {
  if (nestsTooDeep(source)) {
    throw invalid(path, [{ message: `nests more than ${MAX_NESTING} levels deep`, line: 1, column: 1 }]);
  }
  const lines = new LineCounter();
  const document = parseDocument(source, { lineCounter: lines, prettyErrors: false, logLevel: "error" });
  const mistakes = [...document.errors, ...document.warnings];
  if (mistakes.length > 0) {
    const isJson = path.endsWith(".json");
    const issues = mistakes.map(({ message, code, pos: [offset] }) => ({
      message: isJson && code === "DUPLICATE_KEY" ? "a key stands twice in one object" : message,
      ...placeOf(lines, offset),
    }));
    throw invalid(path, (isJson && jsonIssues(source, lines, issues[0])) || issues);
  }
  const checked = checkPlan(contentOf(document, path));
  if ("workstreams" in checked) return checked.workstreams;
  const issues = checked.complaints.map(({ message, path: keys }) => ({
    message,
    ...placeOf(lines, offsetOf(document, keys)),
  }));
  throw invalid(path, issues);
}

/** What is no JSON, in the words of JSON, since YAML's speak of what the file isn't meant to be. */
function jsonIssues(source: string, lines: LineCounter, first: PlanIssue | undefined): PlanIssue[] | undefined {
  try {
    JSON.parse(source);
    return undefined;
  } catch (error) {
    const text = error instanceof Error ? error.message.replace(/\s+/g, " ") : String(error);
    // Not each version of Node, and not each message, says where it is.
    const [place, offset] = / in JSON at position (\d+).*$/.exec(text) ?? [""];
    const where = offset === undefined ? first : placeOf(lines, Number(offset));
    return [{ ...where, message: `this is no JSON: ${text.replace(place, "")}` }];
  }
}

/** Tokens are looked through without recursion, and but for odd ones made without. */
function nestsTooDeep(source: string): boolean {
  let level: readonly (CST.Token | null | undefined)[];
  try {
    level = [...new Parser().parse(source)];
  } catch (error) {
    // The end of the stack, which this time is an error like any other.
    if (error instanceof RangeError) return true;
    throw error;
  }
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_NESTING) return true;
    level = level.flatMap((token) => {
      if (token === null || token === undefined) return [];
      if (token.type === "document") return [token.value];
      return "items" in token ? token.items.flatMap((item) => [item.key, item.value]) : [];
    });
  }
  return false;
}

function checkedObject(plan: OneshotPlan): LoadedPlan {
  const checked = checkPlan(plan);
  if ("workstreams" in checked) return { workstreams: checked.workstreams };
  throw invalid(
    undefined,
    checked.complaints.map(({ message }: PlanComplaint) => ({ message })),
  );
}

async function findPlan({ featureId, baseDir }: PlanSource): Promise<string> {
  const stem = join(baseDir, ".sdp", "plans", nameOf(featureId));
  for (const extension of EXTENSIONS) {
    const isThere = await access(`${stem}${extension}`).then(
      () => true,
      () => false,
    );
    if (isThere) return `${stem}${extension}`;
  }
  throw new OneshotError(
    "PLAN_UNREADABLE",
    `No plan was given for feature ${JSON.stringify(featureId)}, and there is no ${stem}${EXTENSIONS.join(", ")}. ` +
      "Nothing was run; name the plan's file, or make one there.",
  );
}

async function readPlan(path: string): Promise<string> {
  try {
    const bytes = await readFile(path);
    if (bytes.length > MAX_BYTES)
      throw new RangeError(`it has ${bytes.length} bytes, and at most ${MAX_BYTES} are read`);
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new OneshotError("PLAN_UNREADABLE", `The plan ${path} can't be read: ${reason}. Nothing was run.`, { cause });
  }
}

function contentOf(document: Document.Parsed, path: string): unknown {
  try {
    return document.toJS();
  } catch (cause) {
    // Aliases of aliases, so many that they would fill the memory.
    const message = cause instanceof Error ? cause.message : String(cause);
    throw invalid(path, [{ message, line: 1, column: 1 }]);
  }
}

/** Where the value of that path stands, or its key where the key is what is wrong; else what is nearest above it. */
function offsetOf(document: Document.Parsed, path: readonly PropertyKey[]): number {
  let node: ParsedNode | null = document.contents;
  let offset = node?.range[0] ?? 0;
  for (const key of path) {
    const child = childOf(node, key);
    if (!isNode(child)) return offset;
    node = child;
    offset = node.range[0];
  }
  return offset;
}

function childOf(node: ParsedNode | null, key: PropertyKey): ParsedNode | null | undefined {
  if (isSeq(node)) return typeof key === "number" ? node.items[key] : undefined;
  if (!isMap(node)) return undefined;
  const pair = node.items.find((item) => isScalar(item.key) && item.key.value === key);
  // Of a key that means nothing here, it isn't the value that is wrong.
  return isKnownKey(key) ? (pair?.value ?? pair?.key) : pair?.key;
}

function isKnownKey(key: PropertyKey): boolean {
  return ["workstreams", "id", "command", "depends_on", "dependsOn"].includes(String(key));
}

function placeOf(lines: LineCounter, offset: number): { readonly line: number; readonly column: number } {
  const { line, col } = lines.linePos(offset);
  // An empty file has no line for the counter.
  return { line: Math.max(line, 1), column: Math.max(col, 1) };
}

function invalid(path: string | undefined, issues: readonly PlanIssue[]): OneshotError {
  const lines = issues.map(({ message, line, column }) => {
    const where = path === undefined || line === undefined ? "" : `${path}:${line}:${column}: `;
    return `  ${where}${message}`;
  });
  const what = path === undefined ? "The plan" : `The plan ${path}`;
  return new OneshotError("PLAN_INVALID", `${what} is not valid; nothing was run.\n${lines.join("\n")}`, { issues });
}
