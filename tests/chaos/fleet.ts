import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { nowMs } from "./ledger.js";
import type { Told } from "./told.js";

/** The time within which a worker must end after SIGTERM. */
const DRAIN_MS = 15_000;

type Role = "worker" | "sender" | "follower";
export type Programs = Readonly<Record<Role, string>>;

interface Member {
  readonly name: string;
  readonly child: ChildProcess;
  isStopped: boolean;
  isKilled: boolean;
}

/** The processes of a chaos run: workers, a sender and a follower. A process that a fault ends is replaced at once. */
export class Fleet {
  /** The processes that ended by themselves with an error. */
  readonly violations: string[] = [];
  /** Whether the sender has sent everything. */
  hasSent = false;
  /** Whether the follower has seen the ends of its tasks. */
  hasFollowed = false;
  /** The number of times that a worker stopped itself right before a save. */
  stopsBeforeSaves = 0;
  /** The number of workers that the task they ran killed. */
  killedByTasks = 0;
  readonly #programs: Programs;
  readonly #told: Omit<Told, "name">;
  readonly #members = new Set<Member>();
  #isEnding = false;
  #started = 0;

  constructor(programs: Programs, told: Omit<Told, "name">) {
    this.#programs = programs;
    this.#told = told;
    process.once("exit", () => this.end());
  }

  start(workers: number): void {
    this.#start("sender");
    this.#start("follower");
    for (let worker = 0; worker < workers; worker++) this.#start("worker");
  }

  /** Returns a process that isn't stopped. @param random - A number from 0 to 1. */
  victim(random: number): Member | undefined {
    const running = [...this.#members].filter(({ isStopped }) => !isStopped);
    return running[Math.floor(random * running.length)];
  }

  kill(member: Member): void {
    member.isKilled = true;
    member.child.kill("SIGKILL");
  }

  /** Asks a process to end. A worker releases its tasks first. */
  terminate(member: Member): void {
    member.child.kill("SIGTERM");
  }

  /** Asks a worker to stop itself right before its next save, for longer than its lease. */
  stopBeforeSave({ child }: Member): void {
    child.stdin?.write("stop\n");
  }

  /** Stops a process for `ms` milliseconds. */
  stop(member: Member, ms: number): void {
    member.isStopped = true;
    member.child.kill("SIGSTOP");
    setTimeout(() => this.#continue(member), ms);
  }

  /** Ends all processes gracefully. Resolves to a violation for each process that didn't end. */
  async drain(): Promise<string[]> {
    this.#isEnding = true;
    for (const member of this.#members) {
      this.#continue(member);
      this.terminate(member);
    }
    const lastMs = nowMs() + DRAIN_MS;
    while (this.#members.size > 0 && nowMs() < lastMs) await pause(50);
    return [...this.#members].map(({ name }) => `${name} didn't end after SIGTERM`);
  }

  end(): void {
    this.#isEnding = true;
    for (const member of this.#members) this.kill(member);
  }

  #continue(member: Member): void {
    member.isStopped = false;
    member.child.kill("SIGCONT");
  }

  #start(role: Role): void {
    this.#started += 1;
    const name = `${role}-${this.#started}`;
    const { place, storage, ledgers } = this.#told;
    // `cut` finds a process's connections by this name.
    const own = storage === "postgres" ? `${place}?application_name=${name}` : place;
    const child = spawn(process.execPath, [this.#programs[role], JSON.stringify({ ...this.#told, place: own, name })], {
      stdio: ["pipe", "pipe", "pipe"],
    });
    const log = join(ledgers, "..", `${name}.log`);
    child.stderr.on("data", (text) => appendFileSync(log, text));
    const member = { name, child, isStopped: false, isKilled: false };
    this.#members.add(member);
    // The pipe breaks when the process is killed.
    child.stdin.on("error", () => undefined);
    child.stdout.on("data", () => {
      this.stopsBeforeSaves += 1;
      this.stop(member, 1.5 * this.#told.ttlMs);
    });
    void once(child, "close").then(([code, signal]) => {
      this.#members.delete(member);
      if (signal === "SIGKILL" && !member.isKilled) this.killedByTasks += 1;
      if (role === "sender" && code === 0) this.hasSent = true;
      else if (role === "follower" && code === 0) this.hasFollowed = true;
      // A fault ends a process by a signal. An exit code means that the process is broken, and so would be the next
      // one.
      else if (code !== null) {
        const said = existsSync(log) ? readFileSync(log, "utf8").slice(0, 2000) : "";
        this.violations.push(`${name} ended by itself with ${code}: ${said}`);
      } else if (!this.#isEnding) this.#start(role);
    });
  }
}
