import { setTimeout as delay } from "node:timers/promises";
import { findProcess, hasEnvironment, listProcesses } from "./process-table.js";

/** A process, for as long as the machine runs: its pid may be given again, pid and start time together are not. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startTime: string;
}

/** The process group that a command runs in. */
export interface GroupIdentity extends ProcessIdentity {
  /** The group's number: the pid of its leader. */
  readonly group: number;
  /** The value of {@link GROUP_VARIABLE} in its environment: tells its processes when the leader is gone. */
  readonly token: string;
}

/** Every command has this in its environment. */
export const GROUP_VARIABLE = "WAYMARK_PROCESS";

/** How long a group may outlive SIGKILL: a process deep in the kernel ends when the disk answers. */
const STUCK_MS = 10_000;
const POLL_MS = 20;

/** A process group can't be ended, so the work can't go on beside it. */
export class ProcessStuckError extends Error {
  override readonly name = "ProcessStuckError";
  readonly group: number;

  constructor(group: number) {
    super(
      `Process group ${group} did not end within ${STUCK_MS} ms after SIGKILL. The checkpoints are intact; end its ` +
        `processes ("ps -A -o pid,pgid,user,args" shows them), then start again.`,
    );
    this.group = group;
  }
}

/** This process. */
export async function ownIdentity(): Promise<ProcessIdentity> {
  const entry = await findProcess(process.pid);
  return { pid: process.pid, startTime: entry?.startTime ?? "unknown" };
}

/** Whether that very process, and not a later one of its pid, is running. */
export async function isRunning(identity: ProcessIdentity): Promise<boolean> {
  const entry = await findProcess(identity.pid);
  return entry !== undefined && !entry.zombie && entry.startTime === identity.startTime;
}

/**
 * Ends the group that another run left behind: SIGTERM, after `graceMs` SIGKILL, and resolves when it is gone. A group
 * of the same number that isn't proven to be that one is left alone: the leader proves it by its start time, any
 * other member (on Linux) by its environment.
 *
 * @returns Whether there was anything to end.
 * @throws {ProcessStuckError} It outlived SIGKILL.
 */
export async function endOrphanedGroup(identity: GroupIdentity, graceMs: number): Promise<boolean> {
  if (!(await isOrphanAlive(identity))) return false;
  await endGroup(identity.group, graceMs);
  return true;
}

/**
 * Ends a group that this process knows to be its own: SIGTERM, after `graceMs` SIGKILL, and resolves when it is gone.
 *
 * @throws {ProcessStuckError} It outlived SIGKILL, or belongs to another user.
 */
export async function endGroup(group: number, graceMs: number): Promise<void> {
  if (!signalGroup(group, "SIGTERM")) return;
  if (await isGroupGoneWithin(group, graceMs)) return;
  signalGroup(group, "SIGKILL");
  if (await isGroupGoneWithin(group, STUCK_MS)) return;
  throw new ProcessStuckError(group);
}

/** Waits until no process of the group is running; false where one still is after `withinMs`. */
export async function isGroupGoneWithin(group: number, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  // The kernel tells parents alone when a process ends; of an orphan, and of a group, it has to be asked.
  while (await isGroupAlive(group)) {
    if (performance.now() >= deadline) return false;
    await delay(POLL_MS);
  }
  return true;
}

/**
 * Signals every process of a group.
 *
 * @returns Whether the group exists.
 */
export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-group, signal);
    return true;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ESRCH") return false;
    // It exists, and is another user's, or (on macOS) all of it has ended and waits to be collected.
    if (code === "EPERM") return true;
    throw error;
  }
}

async function isOrphanAlive({ pid, group, startTime, token }: GroupIdentity): Promise<boolean> {
  // 0 and 1 are everybody: whatever a file says, they are no command's group.
  if (group <= 1 || group !== pid) return false;
  const processes = await listProcesses();
  const members = processes.filter((entry) => entry.group === group && !entry.zombie);
  if (members.length === 0) return false;
  // A number can't be given to a new group while the old one has a process, be it an ended leader.
  const leader = processes.find((entry) => entry.pid === pid);
  if (leader !== undefined) return leader.startTime === startTime;
  const marked = await Promise.all(members.map((member) => hasEnvironment(member.pid, GROUP_VARIABLE, token)));
  return marked.includes(true);
}

async function isGroupAlive(group: number): Promise<boolean> {
  if (!signalGroup(group, 0)) return false;
  // Those that have ended and were not collected yet don't count: in a container they may stay for ever.
  return (await listProcesses()).some((entry) => entry.group === group && !entry.zombie);
}
