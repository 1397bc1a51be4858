import { isAbsolute, join } from "node:path";

/** A system call of a recorded process. */
export interface SystemCall {
  /** The first recorded thread runs the program; the others work for it. */
  readonly thread: "main" | "other";
  readonly name: string;
  /** The number of this call among the calls with its name on its thread, from 1, as strace counts. */
  readonly ordinal: number;
  /** The path of the file or folder, whether the call names it by a path or by a descriptor. */
  readonly path: string | undefined;
  /** The second path of a rename or link. */
  readonly target: string | undefined;
  readonly args: readonly string[];
  /** The written bytes, if they were recorded. */
  readonly data: Buffer | undefined;
  /** Positions in the record. A call of another thread may begin or end in between. */
  readonly begun: number;
  ended: number | undefined;
  /** `undefined` if the process was killed first. */
  result: number | undefined;
  /** An error such as ENOENT. */
  error: string | undefined;
}

/** The call that program.mjs makes once everything is loaded. All recorded calls after it belong to the store. */
const BEGINS = "/waymark-crash-test-begins";

const LINE = /^(\d+) +(.*)$/;
const RESUMED = /^<\.\.\. \w+ resumed>(.*)$/s;
const ENDED = /\)\s+= (-?\d+|\?|0x[0-9a-f]+)(?:<[^>]*>)?(?: (E[A-Z0-9]+))?/;

/**
 * Parses a record of strace, made with `-f -xx`.
 *
 * @returns All calls in the order of their beginnings, and the store's calls; the others belong to Node's start.
 */
export function parseRecord(record: string): { readonly all: SystemCall[]; readonly ofStore: SystemCall[] } {
  const parser = new RecordParser();
  record.split("\n").forEach((line, at) => {
    const [, thread = "", text] = LINE.exec(line) ?? [];
    if (text !== undefined) parser.add(thread, text, at);
  });
  const { calls } = parser;
  const begun = calls.findIndex(({ path }) => path === BEGINS);
  return { all: calls, ofStore: begun < 0 ? [] : calls.slice(begun + 1) };
}

class RecordParser {
  readonly calls: SystemCall[] = [];
  #main: string | undefined;
  readonly #unfinished = new Map<string, SystemCall>();
  readonly #counts = new Map<string, number>();
  /** The file of each descriptor. */
  readonly #open = new Map<string, string>();

  add(thread: string, text: string, at: number): void {
    this.#main ??= thread;
    const resumed = RESUMED.exec(text);
    const call = resumed ? this.#unfinished.get(thread) : this.#begin(thread, text, at);
    if (call === undefined) return;
    this.#unfinished.delete(thread);
    if (text.endsWith("<unfinished ...>")) this.#unfinished.set(thread, call);
    else this.#end(call, text, at);
  }

  #begin(thread: string, text: string, at: number): SystemCall | undefined {
    const name = /^(\w+)\(/.exec(text)?.[1];
    if (name === undefined) return undefined;
    const args = argumentsIn(text.slice(name.length + 1));
    const key = `${thread} ${name}`;
    const ordinal = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, ordinal);
    const call: SystemCall = {
      thread: thread === this.#main ? "main" : "other",
      name,
      ordinal,
      ...this.#paths(name, args),
      args,
      data: /^p?write/.test(name) && args[1] !== undefined ? bytesOf(args[1]) : undefined,
      begun: at,
      ended: undefined,
      result: undefined,
      error: undefined,
    };
    // The descriptor's number is free before the call has ended, so another thread may already use it.
    if (name === "close") this.#open.delete(args[0] ?? "");
    this.calls.push(call);
    return call;
  }

  #end(call: SystemCall, text: string, at: number): void {
    const [, result = "?", error] = ENDED.exec(text) ?? [];
    if (result === "?") return;
    call.ended = at;
    call.result = Number(result);
    call.error = error;
    if (call.name.startsWith("open") && call.path !== undefined) this.#open.set(result, call.path);
  }

  /**
   * Finds a call's files. Calls name them by path, by a folder's descriptor and a path in it (`…at`), or by descriptor.
   */
  #paths(name: string, args: readonly string[]): Pick<SystemCall, "path" | "target"> {
    const paths: string[] = [];
    let folder: string | undefined;
    for (const arg of args) {
      if (/^".*"$/.test(arg)) paths.push(inFolder(folder, bytesOf(arg)?.toString() ?? ""));
      else if (/^\d+$/.test(arg)) folder = this.#open.get(arg);
      else if (arg === "AT_FDCWD") folder = undefined;
    }
    const byDescriptor = this.#open.get(args[0] ?? "");
    // strace also quotes data that is read or written, which isn't a path.
    if (/^(p?read|p?write|getdents|fcntl|ioctl|symlink)/.test(name)) return { path: byDescriptor, target: undefined };
    const [path = byDescriptor, target] = paths;
    return { path: path === "" ? byDescriptor : path, target };
  }
}

function inFolder(folder: string | undefined, path: string): string {
  return folder === undefined || isAbsolute(path) || path === "" ? path : join(folder, path);
}

/** Splits the arguments. With `-xx`, texts contain no commas or brackets, but structures do. */
function argumentsIn(text: string): string[] {
  const args = [""];
  let depth = 0;
  for (const piece of text.split(/([{}[\](),]|<unfinished \.\.\.>)/)) {
    if (piece.startsWith("<unfinished") || (piece === ")" && depth === 0)) break;
    if ("{[(".includes(piece) && piece !== "") depth += 1;
    if ("}])".includes(piece) && piece !== "") depth -= 1;
    if (piece === "," && depth === 0) args.push("");
    else args.push(`${args.pop() ?? ""}${piece}`);
  }
  return args.map((arg) => arg.trim());
}

function bytesOf(quoted: string): Buffer | undefined {
  const [, hex] = /^"((?:\\x[0-9a-f]{2})*)"$/.exec(quoted) ?? [];
  return hex === undefined ? undefined : Buffer.from(hex.replaceAll("\\x", ""), "hex");
}
