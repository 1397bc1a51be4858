import { hash, randomBytes } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { codeOf } from "./errors.js";

/** `HOST:PID:START-MACHINE-RANDOM`; `HOST:PID:RANDOM` where the system doesn't tell the others. */
const HOLDER = /^(.*):(\d+):(?:(\d+)-([0-9a-f]{12})-)?[0-9a-f]{8}$/s;
const MACHINE_DIGITS = 12;

/** The process that has a lease. */
export interface HolderProcess {
  readonly host: string;
  readonly pid: number;
}

let own: string | undefined;

/** The holder of this process's leases, unless the program names one: a text that people can read. */
export function ownHolder(): string {
  own ??= `${hostname()}:${process.pid}:${identity()}${randomBytes(4).toString("hex")}`;
  return own;
}

/** The process in a holder that {@link ownHolder} made; `undefined` for one that a program chose. */
export function processOf(holder: string): HolderProcess | undefined {
  const [, host, pid] = HOLDER.exec(holder) ?? [];
  return host === undefined ? undefined : { host, pid: Number(pid) };
}

/**
 * Whether the process of a holder has surely ended: it ran on this machine since its last boot, in this process's namespace
 * of process ids, and is there no more. False where that can't be told.
 */
export function holderHasEnded(holder: string): boolean {
  const [, , pid, start, machine] = HOLDER.exec(holder) ?? [];
  return machine !== undefined && machine === ownMachine() && processHasEnded(Number(pid), start);
}

/**
 * Whether no process of this number is alive in this namespace. A zombie has ended.
 *
 * @param start - The start of the process that is meant: its number may have been given to another one since.
 */
export function processHasEnded(pid: number, start?: string): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: another user's process has that number.
    if (codeOf(error) === "ESRCH") return true;
  }
  const found = statusOf(pid);
  if (found === undefined) return false;
  return found.state === "Z" || found.state === "X" || (start !== undefined && found.start !== start);
}

function identity(): string {
  const [machine, status] = [ownMachine(), statusOf(process.pid)];
  return machine === undefined || status === undefined ? "" : `${status.start}-${machine}-`;
}

let machine: { readonly name: string | undefined } | undefined;

/** The same for all processes of this boot and this namespace of process ids, and for no others. Linux alone tells it. */
function ownMachine(): string | undefined {
  machine ??= { name: readMachine() };
  return machine.name;
}

function readMachine(): string | undefined {
  try {
    // In a container that has its host's /proc, numbers there aren't those of its processes.
    if (readlinkSync("/proc/self") !== String(process.pid)) return undefined;
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    return hash("sha256", `${boot} ${readlinkSync("/proc/self/ns/pid")}`, "hex").slice(0, MACHINE_DIGITS);
  } catch {
    return undefined;
  }
}

/** A process's state and when it started, in clock ticks since the boot; `undefined` where that can't be read. */
function statusOf(pid: number): { readonly state: string; readonly start: string } | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return undefined;
  }
  // The second field is the program's name in parentheses, which may hold spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state, start] = [fields[0], fields[19]];
  return state === undefined || start === undefined ? undefined : { state, start };
}
