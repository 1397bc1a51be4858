import { join } from "node:path";
import type { SystemCall } from "./system-calls.js";

/** The calls that change the disk. Between two of them, the moment of a kill doesn't matter. */
export const CHANGING: readonly string[] = [
  ...["write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate", "copy_file_range"],
  ...["fsync", "fdatasync", "sync_file_range", "msync"],
  ...["rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat"],
  ...["mkdir", "mkdirat", "rmdir", "utimensat", "chmod", "fchmod", "fchmodat"],
];

/** The calls that show which file a descriptor belongs to. Some of them create files. */
export const OPENING: readonly string[] = ["open", "openat", "openat2", "creat", "close"];

/** Whether the call may change the disk or prints an answer. */
export function changes({ name, args }: SystemCall): boolean {
  return CHANGING.includes(name) || (OPENING.includes(name) && args.some((arg) => /O_CREAT|O_TRUNC/.test(arg)));
}

export function storeIn(folder: string): string {
  return join(folder, "store");
}

/**
 * Names calls the same way in every run: without process ids and random names, but with the number of earlier equal
 * calls.
 */
export function namesOf(calls: readonly SystemCall[], folder: string): Map<SystemCall, string> {
  const times = new Map<string, number>();
  const names = new Map<SystemCall, string>();
  for (const call of calls) {
    if (!isOn(call, folder)) continue;
    const paths = [call.path, call.target].flatMap((path) => (path === undefined ? [] : [path]));
    const name = [call.name, ...paths.map((path) => steady(path, folder))].join(" ");
    const time = (times.get(name) ?? 0) + 1;
    times.set(name, time);
    names.set(call, `${name} (${time})`);
  }
  return names;
}

/** Whether the call is about a file or folder of the store, or prints an answer. */
function isOn(call: SystemCall, folder: string): boolean {
  if (call.path === undefined) return call.name === "write" && call.args[0] === "1";
  return call.path.startsWith(folder);
}

function steady(path: string, folder: string): string {
  return path.slice(folder.length).replaceAll(/\d+@[^/]+/g, "<claim>");
}
