/** The number of the file system call that fails next, from 1, its error code, and the calls since then. */
export const faults = { failing: 0, calls: 0, code: "EIO", names: [] as string[] };

/** Makes the call with the number `failing` fail; 0 means none. */
export function arm(failing: number, code = "EIO"): void {
  Object.assign(faults, { failing, calls: 0, code, names: [] });
}

const CALLS = [
  ...["openSync", "closeSync", "readFileSync", "appendFileSync", "writeSync", "readSync", "fstatSync", "lstatSync"],
  ...["readdirSync", "mkdirSync"],
  ...[
    "statSync",
    "realpathSync",
    "fsyncSync",
    "linkSync",
    "renameSync",
    "unlinkSync",
    "rmdirSync",
    "rmSync",
    "utimesSync",
    "chmodSync",
    "fsync",
    "fdatasync",
  ],
];

/** Returns the real file system, in which any single call can be made to fail, for `vi.mock` of `node:fs`. */
export function failingFs(real: typeof import("node:fs")) {
  const failing =
    <Args extends unknown[], Result>(name: string, call: (...args: Args) => Result) =>
    (...args: Args): Result => {
      const error = failure(name);
      if (error === undefined) return call(...args);
      const callback = args.at(-1);
      if (typeof callback !== "function") throw error;
      queueMicrotask(() => callback(error));
      return undefined as Result;
    };
  const wrapped = Object.fromEntries(
    CALLS.map((name) => [name, failing(name, real[name as "openSync"] as (...args: unknown[]) => unknown)]),
  );
  return { ...real, ...wrapped, default: { ...real, ...wrapped } };
}

function failure(name: string): Error | undefined {
  faults.calls += 1;
  faults.names.push(name);
  if (faults.calls !== faults.failing) return undefined;
  return Object.assign(new Error(`${faults.code}: made to fail, ${name}`), { code: faults.code, syscall: name });
}
