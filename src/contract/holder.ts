import { hash } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { readCode } from "./errors.js";
import { processState } from "./process-state.js";
import { realRuntime } from "./runtime.js";

/** `HOST:PID:START-MACHINE-RANDOM`, or `HOST:PID:RANDOM` if the system doesn't report start and machine. */
const HOLDER = /^(.*):(\d+):(?:(\d+)-([0-9a-f]{12})-)?[0-9a-f]{8}$/s;
const MACHINE_DIGITS = 12;

/** The process that has a lease. */
export interface HolderProcess {
  readonly host: string;
  readonly pid: number;
}

/** Returns the default holder of this process's leases, as readable text. */
export function ownHolder(): string {
  const makeName = () => `${hostname()}:${process.pid}:${identity()}${realRuntime.randomUUID().slice(0, 8)}`;
  return processState("holder.1", () => ({ name: makeName() })).name;
}

/** Returns the process of a holder that {@link ownHolder} made; `undefined` for other holders. */
export function parseHolder(holder: string): HolderProcess | undefined {
  const [, host, pid] = HOLDER.exec(holder) ?? [];
  return host === undefined ? undefined : { host, pid: Number(pid) };
}

/**
 * Whether a holder's process is known to have ended. That is only known if it ran on this machine since the last boot,
 * in this process's PID namespace. Otherwise the result is false.
 */
export function holderHasEnded(holder: string): boolean {
  const [, , pid, start, machine] = HOLDER.exec(holder) ?? [];
  return machine !== undefined && machine === ownMachine() && processHasEnded(Number(pid), start);
}

/**
 * Returns a function that asks once for each holder and remembers the result. For reading many leases, since one
 * process may hold a lot of them.
 */
export function askOnce(ask: (holder: string) => boolean): (holder: string) => boolean {
  const results = new Map<string, boolean>();
  return (holder) => {
    const result = results.get(holder) ?? ask(holder);
    results.set(holder, result);
    return result;
  };
}

/**
 * Whether no process with this id is alive in this PID namespace. A zombie counts as ended.
 *
 * @param start - The start time of the process. If the process with this id started at another time, the id was reused.
 */
export function processHasEnded(pid: number, start?: string): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM means that the process exists and belongs to another user.
    if (readCode(error) === "ESRCH") return true;
  }
  const status = readStatus(pid);
  return status !== undefined && ("ZX".includes(status.state) || (start !== undefined && status.start !== start));
}

function identity(): string {
  const [machine, status] = [ownMachine(), readStatus(process.pid)];
  return machine === undefined || status === undefined ? "" : `${status.start}-${machine}-`;
}

let machine: { readonly name: string | undefined } | undefined;

/** Identifies this boot and this PID namespace. Only Linux reports it. */
function ownMachine(): string | undefined {
  machine ??= { name: readMachine() };
  return machine.name;
}

function readMachine(): string | undefined {
  try {
    // A container may see its host's /proc, whose process ids aren't the container's.
    if (readlinkSync("/proc/self") !== String(process.pid)) return undefined;
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    return hash("sha256", `${boot} ${readlinkSync("/proc/self/ns/pid")}`, "hex").slice(0, MACHINE_DIGITS);
  } catch {
    // This isn't Linux, or /proc is hidden.
    return undefined;
  }
}

/** Reads a process's state, and its start in clock ticks since the boot; `undefined` if they can't be read. */
function readStatus(pid: number): { readonly state: string; readonly start: string } | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    // There is no such process.
    return undefined;
  }
  // The second field is the program's name in parentheses; it may contain spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state, start] = [fields[0], fields[19]];
  return state === undefined || start === undefined ? undefined : { state, start };
}
