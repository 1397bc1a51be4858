// Executes a program in one process, in several lives. The storage of a life kills, freezes, pauses or cancels it.
import { AsyncLocalStorage } from "node:async_hooks";
import { CheckpointManager, type Run, type Runtime, type StorageAdapter } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { recordHistory, SimulatedRuntime } from "waymark/testing";
import { hasEnded } from "../../src/contract/transient.js";
import { recordingLogger } from "../support/recording-logger.js";
import { withMembers } from "../support/with-members.js";
import { changeBetween } from "./between-lives.js";
import type { Case, Life } from "./cases.js";
import { violationsIn } from "./check.js";
import { type Disturbed, disturbed, ENDS } from "./disturbed.js";
import { errorCode } from "./error-code.js";
import { EventSender } from "./events.js";
import { executeTurn, LONG_STEP_MS, type World } from "./execute.js";
import { FollowedTask } from "./followed.js";
import { misinterpreted } from "./interpret.js";
import { changed, eventNames, type Program } from "./program.js";
import { contest, isCancelled, offerToWorkers, rob } from "./rivals.js";
import type { Seen } from "./seen.js";
import { historyViolations, storedViolations } from "./stored.js";
import { type OpenCall, openViolations, plainViolations, viewViolations } from "./views.js";
import { isPlanned, type ProgramState } from "./walk.js";
import { workOn } from "./work-on.js";

/** The `at` with which a branch chooses the last record. */
const LAST_RECORD = 3;
/** The maximum number of lives of a task. */
const MAX_LIVES = 200;
/** A task fails forever after this many equal failures in a row in which nothing ran. Failing waits may alternate. */
const STUCK_AFTER = 4;
/** The time within which a run notices that its task was cancelled. */
const NOTICED_AFTER_MS = 15_000;
/** By then, a wait is shown, and a run that only waits is suspended. Its answer comes later. */
const SHOWN_AFTER_MS = 10_000;
/** The longest simulated time of a life. No program waits for this long. */
const LONGEST_LIFE_MS = 60_000;
const LONGEST_CASE_S = 1000;
/** The input of each case that has an input. */
const INPUT = { order: 7 };
const UNDISTURBED: Life = {
  fault: undefined,
  sendings: [],
  first: undefined,
  at: 0,
  change: undefined,
  changesInput: false,
  thawsAt: 1,
  isWorked: false,
};

/** Returns descriptions of the violations. Time is simulated, also for the default storage, which is in memory. */
export async function violationsOf(one: Case, storage?: StorageAdapter): Promise<string[]> {
  const runtime = new SimulatedRuntime();
  const execution = new Execution(one, storage, runtime);
  let isDone = false;
  const running = Promise.allSettled([execution.run()]).finally(() => {
    isDone = true;
  });
  for (let seconds = 0; !isDone && seconds < LONGEST_CASE_S; seconds++) await runtime.advance(1000);
  if (!isDone) return [`The lives haven't ended after ${LONGEST_CASE_S} seconds`];
  const [end] = await running;
  if (end.status === "rejected") throw end.reason;
  return [...execution.violations, ...(await execution.check())];
}

/** The end of a life. */
interface End {
  readonly how: string;
  readonly message: string;
  readonly result?: unknown;
}

/** A life that continues at a write of the next life. */
interface Frozen {
  readonly place: Disturbed;
  readonly running: Promise<unknown>;
  readonly at: number;
  stop(): void;
}

/** The lives of one task and of its forks. */
export class Execution {
  readonly violations: string[] = [];
  readonly seen: Seen[] = [];
  readonly history: string[] = [];
  readonly #storage: StorageAdapter;
  /** A runtime that doesn't wait for a manager's storage, because a killed storage never answers. */
  readonly #runtime: Runtime;
  readonly #lives: readonly Life[];
  readonly #isWatched: boolean;
  readonly #forksEnd: boolean;
  readonly #input: typeof INPUT | undefined;
  readonly #events: EventSender;
  readonly #followed: FollowedTask | undefined;
  #program: Program;
  #code = 1;
  readonly #programs = new Map<number, Program>();
  #stepInput = 1;
  #count = 0;
  /** The last life in which each task's function began, and the version of its code. */
  readonly #begun = new Map<string, { readonly life: number; readonly code: number }>();
  #frozen: Frozen | undefined;
  #thawing: Promise<unknown> = Promise.resolve();
  readonly #manager: CheckpointManager;
  readonly #recorded: StorageAdapter;
  /** Calls a function outside all runs. */
  readonly #outside = AsyncLocalStorage.snapshot();
  /** Returns the time by which the storage's leases expire. */
  readonly #nowMs: (() => number) | undefined;

  constructor(
    { program, lives, hasInput, isWatched, isFollowed, forksEnd }: Case,
    storage: StorageAdapter | undefined,
    runtime: SimulatedRuntime,
  ) {
    this.#nowMs = storage ? undefined : () => runtime.now();
    this.#program = program;
    this.#lives = lives;
    this.#isWatched = isWatched;
    this.#forksEnd = forksEnd;
    this.#input = hasInput ? INPUT : undefined;
    this.#storage = runtime.outside(storage ?? new MemoryAdapter({ runtime }));
    this.#runtime = withMembers<Runtime>(runtime, { outside: undefined });
    const { manager, recorded } = this.#open(this.#storage, "parent");
    this.#manager = manager;
    this.#recorded = recorded;
    this.#events = new EventSender(manager, this.#runtime, eventNames(program), this.seen);
    this.#followed = isFollowed ? new FollowedTask(manager, "t") : undefined;
  }

  async run(): Promise<void> {
    const forks: string[] = [];
    this.violations.push(...(await plainViolations(this.#manager, "plain")));
    await this.#untilEnded("t", this.#lives, forks);
    if (this.#forksEnd) await this.#prepare("t", { ...UNDISTURBED, first: "fork", at: LAST_RECORD }, forks);
    for (const fork of forks) await this.#untilEnded(fork, [], []);
    await this.#thaw();
    const end = await this.#manager.latest("t");
    this.violations.push(...((await this.#followed?.check(end !== undefined && hasEnded(end))) ?? []));
  }

  /** Returns every violation in the notes. */
  async check(): Promise<readonly string[]> {
    const ends = await misinterpreted(this.seen, (code) => this.#programs.get(code) ?? []);
    return [...violationsIn(this.seen), ...ends, ...historyViolations(this.history)];
  }

  async #untilEnded(task: string, lives: readonly Life[], forks: string[]): Promise<void> {
    let idle = 0;
    let failure = "";
    for (let number = 0; number < MAX_LIVES; number++) {
      const life = lives[number] ?? UNDISTURBED;
      if (number > 0) await this.#prepare(task, life, forks);
      if (life.change !== undefined) {
        this.#program = changed(this.#program, life.change);
        this.#code += 1;
      }
      if (life.changesInput) {
        this.#stepInput += 1;
        this.#code += 1;
      }
      const seenBefore = this.seen.length;
      if (task === "t") this.#followed?.follow();
      const end = await this.#live(task, life, number > 0 && life.first === "restart");
      this.violations.push(...(await viewViolations(this.#manager, this.#recorded, task, this.seen)));
      if (this.violations.length > 0) return;
      if (end.how === "completed") {
        this.violations.push(...(await storedViolations(this.#manager, task, end.result, this.seen)));
        return;
      }
      const hasRun = this.seen.slice(seenBefore).some(({ is }) => is === "body" || is === "made");
      if (end.how !== "failed" || hasRun) idle = 0;
      else idle = end.message === failure ? idle + 1 : 1;
      failure = end.message;
      if (idle >= STUCK_AFTER && number >= lives.length) {
        this.seen.push({ is: "stuck", task });
        return;
      }
    }
    this.violations.push(`${task} hasn't ended after ${MAX_LIVES} lives`);
  }

  async #live(task: string, life: Life, restarts: boolean): Promise<End> {
    const { fault, sendings, thawsAt, at } = life;
    // The pause lets a wait end before the next life.
    await this.#pause(at % 4);
    const restart = restarts || (await isCancelled(this.#manager, task));
    const pausing = new AbortController();
    let left = sendings;
    let wasCancelled = false;
    let hasAsked = false;
    const beforeWrite = async (write: number | "pause") => {
      if (write === this.#frozen?.at) void this.#thaw();
      const due = left.filter(({ before }) => before === write);
      // An event before the write that pauses the run makes the run try that write again.
      left = left.filter((sending) => !due.includes(sending));
      for (const sending of due) await this.#events.send(task, sending);
      if (write !== fault?.after) return;
      if (fault.how === "paused") pausing.abort();
      if (fault.how === "contested")
        this.violations.push(...(await contest((call) => this.#outside(call), this.#manager, task)));
      // The task may have ended.
      if (fault.how === "cancelled") {
        await this.#manager.cancel(task, "by the test").catch(() => 0);
        wasCancelled = await isCancelled(this.#manager, task);
        // A worker whose run only waits doesn't notice the cancellation.
        if (wasCancelled && life.isWorked) void this.#pause(NOTICED_AFTER_MS).then(() => pausing.abort());
      }
    };
    const place = disturbed(this.#storage, fault, beforeWrite, this.#isWatched);
    const { manager, logger } = this.#open(place.storage, `life-${this.#count + 1}`);
    const note = (seen: Seen) => {
      if (!place.isDead()) this.seen.push(seen);
    };
    manager.on("waitStarted", ({ taskId, turn, step, until }) => {
      const generation = place.generationOf(taskId);
      if (until !== undefined) note({ is: "waiting", task: taskId, generation, turn, title: step, until });
    });
    const isRecorded = () =>
      !wasCancelled && !logger.lines.some(({ message }) => message.includes("could not be recorded"));
    const program = this.#program;
    const code = this.#code;
    const input = this.#stepInput;
    const deadline = at % 2 === 0 ? new AbortController().signal : AbortSignal.abort(new RangeError("planned abort"));
    this.#programs.set(code, program);
    let name = this.#nextLife();
    let hasBegun = false;
    const worlds = new WeakMap<AbortSignal, World>();
    const begin = (run: Run): World => {
      // Each attempt of a worker is a separate life.
      if (hasBegun) name = this.#nextLife();
      hasBegun = true;
      const number = this.#count;
      if ((this.#begun.get(run.taskId)?.life ?? 0) <= number) this.#begun.set(run.taskId, { life: number, code });
      return {
        life: name,
        code,
        input,
        made: 0,
        deadline,
        manager,
        runtime: this.#runtime,
        generationOf: (id) => place.generationOf(id),
        isRecorded,
        note,
        send: (of, wait) => this.#events.answerNow(manager, of, wait, place.generationOf(of), isWorked),
        lasting: (of, title) =>
          fault === undefined
            ? this.#watchCall(of, { title, waitsFor: undefined }, LONG_STEP_MS, false)
            : this.#pause(LONG_STEP_MS),
        asked: (of, wait) => {
          const isFirst = !hasAsked;
          hasAsked = true;
          // A worker takes the task again, so only its first attempt is robbed.
          if (fault?.how === "robbed" && isFirst) void rob(this.#recorded, of);
          else {
            const isLate = isFirst && at % 3 === 0;
            const call = { title: wait.title, waitsFor: "event" as const };
            if (isLate && fault === undefined) void this.#watchCall(of, call, SHOWN_AFTER_MS, isWorked);
            void this.#events.answer(manager, of, wait, place.generationOf(of), { isWorked, isLate });
          }
        },
      };
    };
    const execute = (run: Run) => {
      const world = worlds.get(run.signal) ?? begin(run);
      worlds.set(run.signal, world);
      return executeTurn(program, run as Run<ProgramState>, world);
    };
    const options = this.#versionOptions(task, restart);
    const isWorked = life.isWorked && !restart && (await offerToWorkers(this.#manager, task, this.#input));
    const given = this.#input !== undefined && (at % 2 === 0 || (await this.#manager.latest(task)) === undefined);
    const running = isWorked
      ? workOn(manager, task, execute, { ...options, signal: pausing.signal })
      : manager.run(task, execute, {
          ...options,
          restart,
          signal: pausing.signal,
          ...(given && { input: this.#input }),
        });
    const ended = running.then(
      (result): End => ({ how: "completed", message: "", result }),
      (error: unknown): End => {
        if (isPlanned(error)) return { how: isRecorded() ? "failed" : "stopped", message: String(error) };
        return { how: errorCode(error), message: String(error) };
      },
    );
    const noted = ended.then((end) => {
      const how = end.how === "completed" || end.how === "failed" ? end.how : "stopped";
      note({ is: "ended", life: name, task, how });
      return end;
    });
    const late = this.#pause(LONGEST_LIFE_MS).then(
      (): End => ({ how: "late", message: "It neither ended nor continued" }),
    );
    const end = await Promise.race([noted, place.reached, late]);
    await this.#thaw();
    if (end === undefined) {
      // Releases the leases as if they had expired.
      for (const [of, token] of place.claimed) await this.#recorded.leases?.release(of, token);
      if (!place.isDead()) {
        // If this life suspends its run, its worker must leave the task to the worker of the next life.
        manager.on("runPaused", () => pausing.abort());
        this.#frozen = { place, running: noted, at: thawsAt, stop: () => pausing.abort() };
      }
      return { how: "killed", message: "" };
    }
    if (end.how !== "late") await manager.close();
    const expected = ["completed", "failed", ...(fault === undefined ? [] : ENDS[fault.how])];
    if (!expected.includes(end.how)) this.violations.push(`${name} of ${task} ended with ${end.how}: ${end.message}`);
    return end;
  }

  #nextLife(): string {
    this.#count += 1;
    return `life-${this.#count}`;
  }

  /** Returns the options with the version of the last function that began, so that the run isn't refused. */
  #versionOptions(task: string, restart: boolean) {
    const isSame = this.#begun.get(task)?.code === this.#code && !restart;
    return { version: this.#code, ...(!isSame && { ifVersionChanged: "resume" as const }) };
  }

  /** Lets a frozen life continue until it has ended. */
  async #thaw(): Promise<void> {
    const frozen = this.#frozen;
    this.#frozen = undefined;
    frozen?.place.thaw();
    if (frozen !== undefined) {
      // A worker that finds nothing to do continues to poll.
      const stopped = this.#pause(LONGEST_LIFE_MS).then(frozen.stop);
      this.#thawing = Promise.race([frozen.running, stopped.then(() => frozen.running)]);
    }
    await this.#thawing;
  }

  async #prepare(task: string, life: Life, forks: string[]): Promise<void> {
    this.violations.push(...(await this.#events.findOpenViolations(task)));
    this.violations.push(...(await this.#events.findSenderViolations(task)));
    if (task === "t") this.violations.push(...(await this.#events.findReceiptViolations(task)));
    // A task that was only enqueued has no version yet, so nothing would be refused.
    if (life.first === "refuse" && !this.#begun.has(task)) return;
    const change = await changeBetween(this.#manager, task, life, () => {
      forks.push(`fork-${forks.length + 1}-${task}`);
      return forks.at(-1) ?? "";
    });
    if (typeof change === "string") this.violations.push(change);
    else if (change !== undefined) this.seen.push(change);
    // A rewound task may have another version.
    if (life.first === "rewind") this.#begun.delete(task);
  }

  /** Checks a call that lasts for at least `ms`. @param isWorked - See {@link openViolations}. */
  async #watchCall(task: string, call: OpenCall, ms: number, isWorked: boolean): Promise<void> {
    const since = this.seen.length;
    await this.#pause(ms);
    const seen = this.seen.slice(since);
    this.violations.push(...(await openViolations(this.#manager, task, call, isWorked, seen)));
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#runtime.setTimeout(resolve, ms));
  }

  #open(storage: StorageAdapter, process: string) {
    const logger = recordingLogger();
    const recorded = recordHistory(storage, {
      process,
      write: (line) => void this.history.push(line),
      nowMs: this.#nowMs,
    });
    return {
      manager: new CheckpointManager({ storage: recorded, ownsStorage: false, logger, runtime: this.#runtime }),
      logger,
      recorded,
    };
  }
}
