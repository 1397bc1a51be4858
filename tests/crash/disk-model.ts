import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";
import type { SystemCall } from "./system-calls.js";

/** The fate of an unsynced change in a power loss. `torn`: half of it is kept, in sectors. */
export type Fate = "kept" | "lost" | "zeros" | "torn";

interface Inode {
  readonly isFolder: boolean;
  /** The content on the disk when the model began. */
  readonly content: Buffer;
  readonly names: ReadonlyMap<string, Inode>;
}

/** One change, to a file's data or to the names in a folder. */
interface Change {
  readonly inode: Inode;
  readonly what:
    | { readonly kind: "data"; readonly at: number; readonly bytes: Buffer }
    | { readonly kind: "size"; readonly size: number }
    | { readonly kind: "names"; readonly names: readonly (readonly [string, Inode | undefined])[] };
  /**
   * `unsynced`: the change may or may not be on the disk. `synced`: it is on the disk. `doomed`: an fsync of the change
   * has failed, and it stays open forever whether it is on the disk, because a later fsync succeeds without writing it.
   */
  state: "unsynced" | "synced" | "doomed";
}

/** A descriptor, and the position of the process's next `write`. */
interface Descriptor {
  readonly inode: Inode;
  offset: number;
  /** Whether the file was opened with O_APPEND, so that each write goes to its end. */
  readonly appends: boolean;
}

const SECTOR = 512;

/**
 * A disk that forgets unsynced changes. It takes the system calls of a process, and can show at any moment what a power
 * loss may leave. It promises no more than POSIX does, and less than any file system:
 *
 * - An fsync of a file makes the data and size that the file had at its beginning durable, but not the file's name.
 * - An fsync of a folder makes the names in it durable, but neither the content of those files nor the folder's own
 *   name.
 * - Without an fsync, each change may be lost or kept independently of all others, in any order. A write may become
 *   zeros, or be torn between two sectors.
 * - A rename within a folder is atomic. A rename into another folder adds a name and removes a name, and either change
 *   may be lost without the other.
 * - After a failed fsync, a file's data stays in doubt, and a later fsync proves nothing. Names stay unsynced. An
 *   interrupted fsync (EINTR) has neither written nor dropped anything.
 *
 * Sources: POSIX's fsync and rename; Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014 (what differs
 * between file systems); Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020.
 */
export class DiskModel {
  readonly #folder: string;
  readonly #root: Inode;
  readonly #changes: Change[] = [];
  /** The current names, as processes see them. */
  readonly #names = new Map<Inode, Map<string, Inode>>();
  #descriptors = new Map<string, Descriptor>();
  /** The number of changes at the beginning of each running sync. */
  readonly #syncing = new Map<SystemCall, number>();

  /**
   * @param folder - The folder that the calls name.
   * @param prepared - A folder with the content before the first call, all of it synced. Default: `folder` itself.
   */
  constructor(folder: string, prepared = folder) {
    this.#folder = folder;
    this.#root = this.#load(prepared);
  }

  /**
   * Applies the process's calls in the order in which they took effect. Yields after each call that changed something.
   */
  *run(calls: readonly SystemCall[]): Generator<SystemCall, void, void> {
    this.#descriptors = new Map();
    const moments = calls.flatMap((call) => [
      { at: call.begun, isEnd: false, call },
      ...(call.ended === undefined ? [] : [{ at: call.ended, isEnd: true, call }]),
    ]);
    // A call on one line has its beginning and its end at the same position, in this order.
    for (const { isEnd, call } of moments.toSorted((a, b) => a.at - b.at)) {
      if (!isEnd) {
        if (/^f(data)?sync$/.test(call.name)) this.#syncing.set(call, this.#changes.length);
        if (call.name === "close") this.#descriptors.delete(call.args[0] ?? "");
      } else if (this.#end(call)) yield call;
    }
  }

  /** The number of changes that may or may not be on the disk now. */
  get open(): number {
    return this.#changes.filter(({ state }) => state !== "synced").length;
  }

  /**
   * Returns the disk after a power loss, as files and as a text that is the same for equal disks.
   *
   * @param fates - The fates of the open changes, in order.
   */
  afterLoss(fates: readonly Fate[]): Disk {
    const contents = new Map<Inode, Buffer>();
    const names = new Map<Inode, Map<string, Inode>>();
    const left = fates.values();
    for (const { inode, what, state } of this.#changes) {
      const fate = state === "synced" ? "kept" : (left.next().value ?? "lost");
      if (fate === "lost") continue;
      if (what.kind === "names") {
        const now = names.get(inode) ?? new Map(inode.names);
        for (const [name, other] of what.names) other ? now.set(name, other) : now.delete(name);
        names.set(inode, now);
      } else {
        const before = contents.get(inode) ?? inode.content;
        contents.set(inode, what.kind === "size" ? resized(before, what.size) : written(before, what, fate));
      }
    }
    return new Disk(this.#root, contents, names);
  }

  /** For each open change: whether it is about data or names. */
  openKinds(): readonly ("data" | "names")[] {
    return this.#changes
      .filter(({ state }) => state !== "synced")
      .map(({ what }) => (what.kind === "names" ? "names" : "data"));
  }

  #load(path: string): Inode {
    const isFolder = lstatSync(path).isDirectory();
    const names = new Map(isFolder ? readdirSync(path).map((name) => [name, this.#load(join(path, name))]) : []);
    const inode = { isFolder, names, content: isFolder ? Buffer.alloc(0) : readFileSync(path) };
    this.#names.set(inode, new Map(names));
    return inode;
  }

  /** @returns Whether the disk may have changed. */
  #end(call: SystemCall): boolean {
    const { name, args, result, error } = call;
    const begun = this.#syncing.get(call);
    if (begun !== undefined) return this.#sync(this.#descriptors.get(args[0] ?? "")?.inode, begun, error);
    if (error !== undefined || result === undefined) return false;
    if (name === "close") return false;
    if (/^p?write(64)?$/.test(name)) return this.#write(call, result);
    if (name === "ftruncate") return this.#resize(this.#descriptors.get(args[0] ?? "")?.inode, Number(args[1]));
    if (call.path === undefined || !this.#isInside(call.path)) return false;
    if (name.startsWith("open") || name === "creat") return this.#open(call, result);
    if (name.startsWith("mkdir")) return this.#name(call.path, this.#newInode(true));
    if (name.startsWith("rmdir") || name.startsWith("unlink")) return this.#name(call.path, undefined);
    if (name.startsWith("rename")) return this.#rename(call.path, call.target ?? "");
    if (/^link(at)?$/.test(name)) return this.#name(call.target ?? "", this.#find(call.path));
    if (/^(utimensat|f?chmod(at)?|f?access.*)$/.test(name)) return false;
    throw new Error(`The model of a disk doesn't know ${name}(${args.join(", ")}).`);
  }

  #open({ path = "", args }: SystemCall, descriptor: number): boolean {
    const flags = args.find((arg) => arg.startsWith("O_")) ?? "";
    let inode = this.#find(path);
    const isNew = inode === undefined;
    inode ??= this.#newInode(false);
    this.#descriptors.set(String(descriptor), { inode, offset: 0, appends: flags.includes("O_APPEND") });
    if (isNew) this.#name(path, inode);
    else if (flags.includes("O_TRUNC")) return this.#resize(inode, 0);
    return isNew;
  }

  #write({ name, args, data }: SystemCall, length: number): boolean {
    const descriptor = this.#descriptors.get(args[0] ?? "");
    // The call is about something else: an answer, or a signal to another thread.
    if (descriptor === undefined) return args[0] === "1";
    if (data === undefined) throw new Error(`What ${name} wrote was not recorded.`);
    const start = descriptor.appends ? this.#sizeOf(descriptor.inode) : descriptor.offset;
    const at = name === "write" ? start : Number(args[3]);
    if (name === "write") descriptor.offset = at + length;
    return this.#change(descriptor.inode, { kind: "data", at, bytes: data.subarray(0, length) });
  }

  /** The file's size for processes, whatever is synced. */
  #sizeOf(inode: Inode): number {
    let size = inode.content.length;
    for (const { inode: changed, what } of this.#changes) {
      if (changed !== inode || what.kind === "names") continue;
      size = what.kind === "size" ? what.size : Math.max(size, what.at + what.bytes.length);
    }
    return size;
  }

  #resize(inode: Inode | undefined, size: number): boolean {
    return inode !== undefined && this.#change(inode, { kind: "size", size });
  }

  #rename(from: string, to: string): boolean {
    const inode = this.#find(from);
    if (dirname(from) !== dirname(to)) return this.#name(to, inode) && this.#name(from, undefined);
    const folder = this.#find(dirname(from));
    return this.#changeNames(folder, [
      [basename(from), undefined],
      [basename(to), inode],
    ]);
  }

  #name(path: string, inode: Inode | undefined): boolean {
    return this.#changeNames(this.#find(dirname(path)), [[basename(path), inode]]);
  }

  #changeNames(folder: Inode | undefined, names: readonly (readonly [string, Inode | undefined])[]): boolean {
    if (folder === undefined) throw new Error(`A name was changed in no folder: ${JSON.stringify(names)}`);
    const now = this.#names.get(folder);
    for (const [name, inode] of names) inode ? now?.set(name, inode) : now?.delete(name);
    return this.#change(folder, { kind: "names", names });
  }

  #sync(inode: Inode | undefined, begun: number, error: string | undefined): boolean {
    if (error === "EINTR") return false;
    for (const change of this.#changes.slice(0, begun)) {
      if (change.inode !== inode || change.state !== "unsynced") continue;
      if (error === undefined) change.state = "synced";
      else if (change.what.kind !== "names") change.state = "doomed";
    }
    return inode !== undefined;
  }

  #change(inode: Inode, what: Change["what"]): true {
    this.#changes.push({ inode, what, state: "unsynced" });
    return true;
  }

  #newInode(isFolder: boolean): Inode {
    const inode = { isFolder, names: new Map(), content: Buffer.alloc(0) };
    this.#names.set(inode, new Map());
    return inode;
  }

  #isInside(path: string): boolean {
    return path === this.#folder || path.startsWith(this.#folder + sep);
  }

  #find(path: string): Inode | undefined {
    let inode: Inode | undefined = this.#root;
    for (const name of relative(this.#folder, path).split(sep)) {
      if (name !== "" && inode !== undefined) inode = this.#names.get(inode)?.get(name);
    }
    return inode;
  }
}

/** The content of a disk after a power loss. */
export class Disk {
  readonly #root: Inode;
  readonly #contents: ReadonlyMap<Inode, Buffer>;
  readonly #names: ReadonlyMap<Inode, ReadonlyMap<string, Inode>>;

  constructor(
    root: Inode,
    contents: ReadonlyMap<Inode, Buffer>,
    names: ReadonlyMap<Inode, ReadonlyMap<string, Inode>>,
  ) {
    this.#root = root;
    this.#contents = contents;
    this.#names = names;
  }

  /** Yields every file and folder by its path, with the file's content. */
  *entries(inode = this.#root, path = ""): Generator<readonly [path: string, content: Buffer | undefined]> {
    if (!inode.isFolder) yield [path, this.#contents.get(inode) ?? inode.content];
    else {
      yield [path, undefined];
      for (const [name, other] of this.#names.get(inode) ?? inode.names) yield* this.entries(other, join(path, name));
    }
  }

  writeTo(folder: string): void {
    for (const [path, content] of this.entries()) {
      if (content === undefined) mkdirSync(join(folder, path), { recursive: true });
      else writeFileSync(join(folder, path), content);
    }
  }
}

function resized(content: Buffer, size: number): Buffer {
  return size <= content.length
    ? content.subarray(0, size)
    : Buffer.concat([content, Buffer.alloc(size - content.length)]);
}

function written(content: Buffer, { at, bytes }: { readonly at: number; readonly bytes: Buffer }, fate: Fate): Buffer {
  const end = at + bytes.length;
  const changed = Buffer.from(resized(content, Math.max(content.length, end)));
  if (fate === "zeros") return changed.fill(0, at, end);
  bytes.copy(changed, at, 0, fate === "torn" ? Math.floor(bytes.length / 2 / SECTOR) * SECTOR : bytes.length);
  return changed;
}
