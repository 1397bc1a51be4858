// Executes random programs in several processes on one store. The processes are killed, stopped and drained meanwhile.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { CheckpointManager, type CheckpointSummary, StorageError } from "waymark";
import { stepTitle } from "../../src/contract/run-record.js";
import { readRun } from "../../src/runs/run-view.js";
import { historyIn, recorded } from "../chaos/history.js";
import { nowMs } from "../chaos/ledger.js";
import { openStorage } from "../chaos/store.js";
import { collect } from "../support/collect.js";
import { recordingLogger } from "../support/recording-logger.js";
import { violationsIn } from "./check.js";
import { errorCode } from "./error-code.js";
import { misinterpreted } from "./interpret.js";
import { countBodies, openSeen, SeenReader } from "./ledger.js";
import { eventNames } from "./program.js";
import type { Seen } from "./seen.js";
import { CALLED, chance, isOuter, programOf, type Told, WORKED } from "./told.js";
import type { ProgramState } from "./walk.js";

type Given = Pick<Told, "storage" | "place" | "seed"> & {
  /** An empty folder. */
  readonly folder: string;
  /** The bundled process.ts. */
  readonly program: string;
  /** The duration of the faults. */
  readonly seconds: number;
};

const TTL_MS = 1500;
const WORKERS = 2;
const RUNNERS = 2;
/** The pause between two faults. */
const FAULT_MS = 250;
/** The number of unfinished tasks of each role. */
const OPEN_TASKS = 6;
/** A task fails forever if nothing ran in this many failures in a row. */
const STUCK_AFTER = 3;
/** If nothing has happened for this long after the last fault, the remaining tasks wait forever. */
const STILL_MS = 20_000;
const FAULTS = [
  ...(["kill", "kill", "kill", "stop", "drain", "cancel", "rewind", "fork", "send", "send", "send"] as const),
];
/** The errors of a change whose run continues, ends or is cancelled at the same time. */
const EXPECTED = [
  "CHECKPOINT_CONFLICT",
  "CHECKPOINT_NOT_FOUND",
  "RUN_CANCELLED",
  "LEASE_HELD",
  "LEASE_LOST",
  "RUN_MISMATCH",
];

/** Executes programs on several storages in parallel. Returns the violations and counts of each storage. */
export async function executeInProcesses(all: readonly Given[]) {
  const fleets = all.map((given) => new Fleet(given));
  try {
    await Promise.all(fleets.map((fleet) => fleet.run()));
    const outcomes: Awaited<ReturnType<Fleet["check"]>>[] = [];
    // Checks only after all fleets have ended: a check takes so long that the server would end another fleet's
    // transaction.
    for (const fleet of fleets) outcomes.push(await fleet.check());
    return outcomes;
  } finally {
    await Promise.all(fleets.map((fleet) => fleet.close()));
  }
}

class Fleet {
  readonly #given: Given;
  readonly #seen: string;
  readonly #reader: SeenReader;
  readonly #histories: string;
  readonly #manager: CheckpointManager;
  readonly #note: (seen: Seen, atMs?: number) => void;
  readonly #chance: ReturnType<typeof chance>;
  readonly #children = new Map<ChildProcess, { readonly role: Told["role"]; isStopped: boolean }>();
  readonly #counts: Record<string, number> = {};
  readonly #violations: string[] = [];
  #started = 0;
  #sent = 0;
  #forks = 0;
  #fed = 0;
  /** For each failed task: the steps run when it was last retried, and the number of retries in a row that ran none. */
  readonly #retried = new Map<string, { readonly count: number; readonly idle: number }>();
  readonly #answered = new Set<string>();
  /** Whether the faults are over. From that moment, no results are dropped, so that each task ends or is stuck. */
  #isCalm = false;
  #isEnding = false;

  constructor(given: Given) {
    this.#given = given;
    this.#seen = join(given.folder, "seen");
    this.#histories = join(given.folder, "histories");
    this.#reader = new SeenReader(this.#seen);
    this.#note = openSeen(this.#seen, "parent");
    this.#chance = chance(given.seed);
    const storage = recorded(openStorage(given.storage, given.place), this.#histories, "parent");
    this.#manager = new CheckpointManager({ storage, logger: recordingLogger() });
  }

  async run(): Promise<void> {
    const { seconds } = this.#given;
    for (let number = 0; number < WORKERS; number++) this.#start("work");
    for (let number = 0; number < RUNNERS; number++) this.#start("run");
    const untilMs = nowMs() + seconds * 1000;
    while (nowMs() < untilMs && this.#violations.length === 0) {
      await pause(FAULT_MS);
      await this.#answer();
      await this.#feed(await this.#retryFailed());
      await this.#disturb();
    }
    await this.#untilEnded();
    await this.#drain();
  }

  async check() {
    const noted = this.#reader.read();
    const seen = [...noted, ...(await this.#compare(noted))];
    const history = historyIn(this.#histories);
    const code = (task: string) => (version: number) => programOf(this.#given.seed, task, version);
    this.#violations.push(...violationsIn(seen), ...history.violations);
    const tasksSeen = new Set(seen.flatMap((line) => ("task" in line ? line.task : [])));
    for (const task of tasksSeen) {
      const own = seen.filter((line) => "task" in line && line.task === task);
      this.#violations.push(...(await misinterpreted(own, code(task))));
    }
    const lives = new Set(seen.flatMap((line) => (line.is === "began" ? `${line.task} ${line.life}` : [])));
    const isNamed = (task: string) => this.#violations.some((violation) => /^[^\s,:]+/.exec(violation)?.[0] === task);
    return {
      violations: this.#violations,
      /** The notes about tasks that a violation names. */
      seen: seen.filter((line) => "task" in line && isNamed(line.task)),
      counts: { ...this.#counts, lives: lives.size, "calls in the history": history.calls },
    };
  }

  async close(): Promise<void> {
    this.#isEnding = true;
    const ended = [...this.#children.keys()].map((child) => once(child, "close"));
    for (const child of this.#children.keys()) child.kill("SIGKILL");
    await Promise.all(ended);
    await this.#manager.close();
  }

  async #disturb(): Promise<void> {
    const fault = this.#chance.pick(FAULTS) ?? "kill";
    const running = [...this.#children].filter(([, { isStopped }]) => !isStopped);
    const [child, member] = this.#chance.pick(running) ?? [];
    if (child === undefined || member === undefined) return;
    this.#counts[fault] = (this.#counts[fault] ?? 0) + 1;
    if (fault === "kill") child.kill("SIGKILL");
    else if (fault === "drain") child.kill("SIGTERM");
    else if (fault === "stop") {
      member.isStopped = true;
      child.kill("SIGSTOP");
      setTimeout(() => this.#continue(child), TTL_MS * (1.2 + this.#chance.random())).unref();
    } else await this.#change(fault);
  }

  /** Changes a task from outside. */
  async #change(fault: "cancel" | "rewind" | "fork" | "send"): Promise<void> {
    const task = this.#chance.pick(await this.#unfinished());
    if (task === undefined) return;
    if (fault === "send") return this.#send(task);
    try {
      if (fault === "cancel") {
        // Only `run` restarts a cancelled task.
        if (task.startsWith(CALLED)) await this.#manager.cancel(task, "by the test");
        return;
      }
      const newest = await this.#manager.latest(task);
      const record = this.#chance.pick(await collect(this.#manager.records(task)));
      if (record === undefined || newest?.status === "completed") return;
      this.#forks += Number(fault === "fork");
      const branch = fault === "fork" ? `${task.replace(CALLED, WORKED)}-fork-${this.#forks}` : task;
      this.#note({ is: "forked", task: branch, from: task });
      if (fault === "fork") await this.#manager.fork(task, record.sequence, branch);
      else await this.#manager.rewind(task, record.sequence);
    } catch (error) {
      ignoreExpected(error);
    }
  }

  /** Sends an event, perhaps a bad one, perhaps twice. */
  async #send(task: string): Promise<void> {
    const event = this.#chance.pick(eventNames(programOf(this.#given.seed, task, 1)));
    if (event === undefined) return;
    this.#sent += 1;
    const value = { id: `sent-${this.#sent}`, isBad: this.#chance.below(3) === 0 };
    this.#note({ is: "sent", task, event, id: value.id, isBad: value.isBad });
    const send = () => this.#manager.send(task, event, value, { id: value.id, force: true });
    await Promise.all(Array.from({ length: 1 + this.#chance.below(2) }, () => untilStored(send)));
  }

  /** Answers the waits that have begun since the last call. */
  async #answer(): Promise<void> {
    for (const line of this.#reader.read()) {
      const key = JSON.stringify(line);
      if (line.is !== "asked" || this.#answered.has(key)) continue;
      this.#answered.add(key);
      const { task, event } = line;
      this.#sent += 1;
      const value = { id: `answer-${this.#sent}`, isBad: false };
      this.#note({ is: "sent", task, event, id: value.id, isBad: false });
      await untilStored(() => this.#manager.send(task, event, value, { id: value.id, force: true }));
    }
  }

  /** Returns the tasks that haven't ended, without the stuck ones. */
  async #unfinished(): Promise<readonly string[]> {
    const listed = (await this.#manager.tasks()).filter(({ newest }) => newest.status !== "completed");
    const stuck = new Set(this.#reader.read().flatMap((line) => (line.is === "stuck" ? line.task : [])));
    return listed.map(({ taskId }) => taskId).filter((task) => isOuter(task) && !stuck.has(task));
  }

  /** Enqueues more tasks if few are left. */
  async #feed(left: readonly string[]): Promise<void> {
    for (const prefix of [WORKED, CALLED]) {
      const own = left.filter((task) => task.startsWith(prefix));
      for (let more = own.length; more < OPEN_TASKS; more++)
        await untilStored(() => this.#manager.enqueue(`${prefix}${this.#fed}`, null)).then(() => this.#fed++);
    }
  }

  /** Retries the failed tasks of workers, some from an earlier step. Resolves to the tasks that haven't ended. */
  async #retryFailed(): Promise<readonly string[]> {
    const left = await this.#unfinished();
    const bodies = countBodies(this.#reader.read());
    for (const { taskId, newest } of await this.#manager.tasks({ prefix: WORKED, status: ["failed"] })) {
      if (!left.includes(taskId)) continue;
      const { count, idle } = this.#retried.get(taskId) ?? { count: -1, idle: 0 };
      const now = { count: bodies.get(taskId) ?? 0, idle: count === bodies.get(taskId) ? idle + 1 : 0 };
      this.#retried.set(taskId, now);
      if (now.idle === STUCK_AFTER) this.#note({ is: "stuck", task: taskId });
      else await this.#retry(taskId, newest).catch(ignoreExpected);
    }
    return left;
  }

  async #retry(task: string, newest: CheckpointSummary): Promise<void> {
    this.#counts["retry"] = (this.#counts["retry"] ?? 0) + 1;
    const run = !this.#isCalm && this.#chance.below(4) === 0 ? await readRun(this.#manager, newest) : undefined;
    const ended = run?.steps.filter(({ status }) => status === "completed" || status === "failed") ?? [];
    const step = this.#chance.pick(ended);
    if (run === undefined || step === undefined) return void (await this.#manager.retry(task));
    const from = stepTitle(step.name, step.occurrence);
    const state = (await this.#manager.restore(task, newest.id)).state as ProgramState | undefined;
    const atMs = nowMs();
    const isRetried = await this.#manager.retry(task, { from });
    const { generation } = run;
    if (isRetried > 0) this.#note({ is: "dropped", task, generation, at: state?.at ?? 0, from }, atMs);
  }

  /** Waits until all tasks have ended or are stuck. */
  async #untilEnded(): Promise<void> {
    this.#isCalm = true;
    for (const child of this.#children.keys()) this.#continue(child);
    let before = "";
    let lastMs = nowMs() + STILL_MS;
    for (;;) {
      await this.#answer();
      const left = await this.#retryFailed();
      if (left.length === 0 || this.#violations.length > 0) return;
      const now = `${this.#reader.read().filter(({ is }) => is !== "asked").length}`;
      if (now !== before) lastMs = nowMs() + STILL_MS;
      before = now;
      if (nowMs() > lastMs) {
        const listed = (await this.#manager.tasks()).filter(({ taskId }) => left.includes(taskId));
        for (const { taskId, newest } of listed)
          this.#violations.push(`${taskId} waits for ever: ${newest.status}, "${newest.label}"`);
        return;
      }
      await pause(100);
    }
  }

  /** Compares the ends of the tasks with what is stored. */
  async #compare(seen: readonly Seen[]): Promise<readonly Seen[]> {
    const events: Seen[] = [];
    for (const { taskId } of await this.#manager.tasks({ status: ["completed"] })) {
      const results = seen.flatMap((line) =>
        line.is === "returned" && line.task === taskId ? JSON.stringify(line.result) : [],
      );
      if (!results.includes(JSON.stringify(await this.#manager.result(taskId))))
        this.#violations.push(`${taskId} has a result that no life returned`);
      for (const { id, status } of await this.#manager.events(taskId))
        events.push({ is: "event", task: taskId, id, status });
    }
    // Reads everything that is stored, so that the history contains it.
    for (const { taskId } of await this.#manager.tasks()) await collect(this.#manager.records(taskId));
    return events;
  }

  async #drain(): Promise<void> {
    this.#isEnding = true;
    const ended = [...this.#children.keys()].map((child) => once(child, "close"));
    for (const child of this.#children.keys()) child.kill("SIGTERM");
    const lastMs = AbortSignal.timeout(STILL_MS);
    await Promise.race([
      Promise.all(ended),
      once(lastMs, "abort").then(() => {
        const { size } = this.#children;
        if (size > 0) this.#violations.push(`${size} processes didn't end after SIGTERM`);
      }),
    ]);
  }

  #continue(child: ChildProcess): void {
    const member = this.#children.get(child);
    if (member !== undefined) member.isStopped = false;
    child.kill("SIGCONT");
  }

  #start(role: Told["role"]): void {
    this.#started += 1;
    const { storage, place, seed, folder, program } = this.#given;
    const name = `${role}-${this.#started}`;
    const code = 1 + this.#chance.below(Math.min(3, 1 + Math.floor(this.#started / 6)));
    const told: Told = {
      name,
      role,
      storage,
      place,
      seed,
      ttlMs: TTL_MS,
      code,
      seen: this.#seen,
      histories: this.#histories,
    };
    const child = spawn(process.execPath, [program, JSON.stringify(told)], { stdio: ["pipe", "ignore", "pipe"] });
    const log = join(folder, `${name}.log`);
    child.stderr?.on("data", (text) => appendFileSync(log, text));
    // The pipe breaks when the process is killed.
    child.stdin?.on("error", () => undefined);
    this.#children.set(child, { role, isStopped: false });
    void once(child, "close").then(([status]) => {
      this.#children.delete(child);
      if (status !== null && status !== 0)
        this.#violations.push(`${name} ended with ${status}: ${readFileSync(log, "utf8").slice(0, 2000)}`);
      else if (!this.#isEnding) this.#start(role);
    });
  }
}

function ignoreExpected(error: unknown): void {
  if (!EXPECTED.includes(errorCode(error)) && !isRetryable(error)) throw error;
}

/** Repeats a call that takes effect once. */
async function untilStored<Result>(call: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!isRetryable(error)) throw error;
    }
  }
}

/** On a busy machine, this process may be kept so long from its transaction that the server ends it. */
function isRetryable(error: unknown): boolean {
  return error instanceof StorageError && error.retryable;
}
