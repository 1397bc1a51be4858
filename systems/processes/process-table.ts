import { readdir, readFile, readlink } from "node:fs/promises";
import { execa } from "execa";

/** A process as the operating system lists it. */
export interface ProcessEntry {
  readonly pid: number;
  /** Its process group: the pid of the group's leader. */
  readonly group: number;
  /** Ended, and not yet collected by its parent. */
  readonly zombie: boolean;
  /** When it started, in a form that only compares for equality. A pid is given again; pid and start time are not. */
  readonly startTime: string;
}

/** Every process of this machine that can be seen. */
export async function listProcesses(): Promise<ProcessEntry[]> {
  return process.platform === "linux" ? listFromProc() : listFromPs();
}

/**
 * The process of that pid, or `undefined`.
 *
 * @throws Too many files are open to look, or there is too little memory.
 */
export async function findProcess(pid: number): Promise<ProcessEntry | undefined> {
  if (process.platform === "linux") return readProc(pid, await bootOfLinux());
  return (await listFromPs()).find((entry) => entry.pid === pid);
}

/** Whether a process was started with `name=value` in its environment. Only Linux tells; false where it can't be told. */
export async function hasEnvironment(pid: number, name: string, value: string): Promise<boolean> {
  if (process.platform !== "linux") return false;
  const environment = await readOrUndefined(`/proc/${pid}/environ`);
  return environment?.split("\0").includes(`${name}=${value}`) ?? false;
}

/** From `ps`, as POSIX has it: for every system without Linux's /proc. */
export async function listFromPs(): Promise<ProcessEntry[]> {
  const { stdout } = await execa("ps", ["-A", "-o", "pid=", "-o", "pgid=", "-o", "stat=", "-o", "lstart="], {
    env: { LC_ALL: "C", TZ: "UTC" },
  });
  return parsePs(stdout);
}

/** Reads lines of pid, group, state and start time, as {@link listFromPs} asks for them. */
export function parsePs(stdout: string): ProcessEntry[] {
  return stdout.split("\n").flatMap((line) => {
    const [pid, group, state, ...started] = line.trim().split(/\s+/);
    if (pid === undefined || group === undefined || state === undefined) return [];
    return [{ pid: Number(pid), group: Number(group), zombie: state.startsWith("Z"), startTime: started.join(" ") }];
  });
}

async function listFromProc(): Promise<ProcessEntry[]> {
  const boot = await bootOfLinux();
  const names = await readdir("/proc");
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number);
  const entries = await Promise.all(pids.map((pid) => readProc(pid, boot)));
  return entries.filter((entry) => entry !== undefined);
}

async function readProc(pid: number, boot: string): Promise<ProcessEntry | undefined> {
  const stat = await readOrUndefined(`/proc/${pid}/stat`);
  if (stat === undefined) return undefined;
  // The second field is the program's name in brackets and may hold blanks and brackets itself: what counts comes
  // after the last one. From there: state (field 3), parent, group (5) … start time in ticks since boot (22).
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const state = fields[0] ?? "";
  return {
    pid,
    group: Number(fields[2]),
    zombie: state === "Z" || state === "X",
    startTime: `${boot}:${fields[19]}`,
  };
}

let linuxBoot: Promise<string> | undefined;

/** Ticks since boot and pids mean nothing without the boot, and the pid namespace (a container's), they belong to. */
async function bootOfLinux(): Promise<string> {
  linuxBoot ??= readBoot();
  try {
    return await linuxBoot;
  } catch (error) {
    // The next call may find what this one could not open.
    linuxBoot = undefined;
    throw error;
  }
}

async function readBoot(): Promise<string> {
  const [boot = "unknown-boot", namespace = "pid:[unknown]"] = await Promise.all([
    readOrUndefined("/proc/sys/kernel/random/boot_id"),
    // Some sandboxes don't show it. Then pids and ticks are told from another container's by the boot alone.
    readlink("/proc/self/ns/pid").catch(unlessShort),
  ]);
  return `${boot.trim()}:${namespace}`;
}

/** Processes end while they are being read, and those of other users don't tell: both are as good as not there. */
async function readOrUndefined(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(unlessShort);
}

/**
 * For what can't be read. Where it is this program that has too many files open, nothing is known: a run that is under
 * way would count as dead, and be started a second time beside itself.
 */
function unlessShort(error: unknown): undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "EMFILE" || code === "ENFILE" || code === "ENOMEM") throw error;
  return undefined;
}
