// Executes a program in one process, in several lives: each is killed, frozen, paused or cancelled by its storage.
import { CheckpointManager, type Runtime, type StorageAdapter } from "waymark";
import { isTransient } from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import { checkHistory, parseHistory, recordHistory, SimulatedRuntime } from "waymark/testing";
import { stepTitle } from "../../src/contract/run-record.js";
import { readRun } from "../../src/runs/run-view.js";
import { collect } from "../support/collect.js";
import { recordingLogger } from "../support/recording-logger.js";
import { withMembers } from "../support/with-members.js";
import type { Case, Life, Sending } from "./cases.js";
import { violationsIn } from "./check.js";
import { type Disturbed, disturbed, type Fault } from "./disturbed.js";
import { errorCode } from "./error-code.js";
import { type EventValue, executeTurn, type World } from "./execute.js";
import { misinterpreted } from "./interpret.js";
import { changed, eventNames, type Program } from "./program.js";
import type { Seen } from "./seen.js";
import { isPlanned, type ProgramState } from "./walk.js";

/** So often is a task begun at most. */
const MAX_LIVES = 60;
/** After so many failures in a row in which nothing ran, a task fails for ever. */
const STUCK_AFTER = 2;
const UNDISTURBED: Life = {
  fault: undefined,
  sendings: [],
  first: undefined,
  at: 0,
  change: undefined,
  changesInput: false,
  thawsAt: 1,
};

/** What is wrong, in words. The time is simulated, also that of the default storage, which is in memory. */
export async function violationsOf(one: Case, storage?: StorageAdapter): Promise<string[]> {
  const runtime = new SimulatedRuntime();
  const execution = new Execution(one, storage ?? new MemoryAdapter({ runtime }), runtime);
  let isDone = false;
  const running = execution.run().finally(() => {
    isDone = true;
  });
  while (!isDone) await runtime.advance(1);
  await running;
  return execution.violations;
}

/** The lives of one task, and those of its forks. */
export class Execution {
  readonly violations: string[] = [];
  readonly seen: Seen[] = [];
  readonly history: string[] = [];
  readonly #storage: StorageAdapter;
  /** It doesn't wait for a manager's storage, since a killed one never answers. */
  readonly #runtime: Runtime;
  readonly #lives: readonly Life[];
  readonly #names: readonly string[];
  #program: Program;
  #code = 1;
  readonly #programs = new Map<number, Program>();
  #input = 1;
  #count = 0;
  #sent = 0;
  #frozen: { readonly place: Disturbed; readonly running: Promise<unknown>; readonly at: number } | undefined;
  #thawing: Promise<unknown> = Promise.resolve();
  readonly #manager: CheckpointManager;
  readonly #recorded: StorageAdapter;

  constructor({ program, lives }: Case, storage: StorageAdapter, runtime: SimulatedRuntime) {
    this.#program = program;
    this.#lives = lives;
    this.#names = eventNames(program);
    this.#storage = runtime.outside(storage);
    this.#runtime = withMembers<Runtime>(runtime, { outside: undefined });
    const { manager, recorded } = this.#open(this.#storage, "parent");
    this.#manager = manager;
    this.#recorded = recorded;
  }

  async run(): Promise<void> {
    const forks: string[] = [];
    await this.#untilEnded("t", this.#lives, forks);
    for (const fork of forks) await this.#untilEnded(fork, [], []);
    await this.#thaw();
    this.violations.push(...violationsIn(this.seen));
    this.violations.push(...(await misinterpreted(this.seen, (code) => this.#programs.get(code) ?? [])));
    const calls = parseHistory(this.history);
    if (!calls.some(({ action }) => action.is === "claim" && action.token !== undefined))
      this.violations.push("The history lacks the claims");
    for (const { rule, message } of checkHistory(calls)) this.violations.push(`${rule}: ${message}`);
  }

  async #untilEnded(task: string, lives: readonly Life[], forks: string[]): Promise<void> {
    let idle = 0;
    for (let number = 0; number < MAX_LIVES; number++) {
      const life = lives[number] ?? UNDISTURBED;
      if (number > 0) await this.#prepare(task, life, forks);
      if (life.change !== undefined) {
        this.#program = changed(this.#program, life.change);
        this.#code += 1;
      }
      if (life.changesInput) {
        this.#input += 1;
        this.#code += 1;
      }
      const seenBefore = this.seen.length;
      const end = await this.#live(
        task,
        life,
        (number > 0 && life.first === "restart") || (await this.#isCancelled(task)),
      );
      if (this.violations.length > 0) return;
      if (end.how === "completed") return this.#compare(task, end.result);
      const hasRun = this.seen.slice(seenBefore).some(({ is }) => is === "body" || is === "made");
      idle = end.how === "failed" && !hasRun ? idle + 1 : 0;
      if (idle >= STUCK_AFTER && number >= lives.length) {
        this.seen.push({ is: "stuck", task });
        return;
      }
    }
    this.violations.push(`${task} hasn't ended after ${MAX_LIVES} lives`);
  }

  /** Resolves to how the life has ended. */
  async #live(
    task: string,
    { fault, sendings, thawsAt }: Life,
    restart: boolean,
  ): Promise<{ readonly how: string; readonly message: string; readonly result?: unknown }> {
    this.#count += 1;
    const name = `life-${this.#count}`;
    const pausing = new AbortController();
    let isCancelled = false;
    const place = disturbed(this.#storage, fault, async (write) => {
      if (write === this.#frozen?.at) void this.#thaw();
      for (const sending of sendings) if (sending.before === write) await this.#send(task, sending);
      if (write !== fault?.after) return;
      if (fault.how === "paused") pausing.abort();
      // The task may have ended.
      if (fault.how === "cancelled") {
        await this.#manager.cancel(task, "by the test").catch(() => 0);
        isCancelled = await this.#isCancelled(task);
      }
    });
    const { manager, logger } = this.#open(place.storage, name);
    const isRecorded = () =>
      !isCancelled && !logger.lines.some(({ message }) => message.includes("could not be recorded"));
    const world: World = {
      life: name,
      code: this.#code,
      input: this.#input,
      manager,
      runtime: this.#runtime,
      generationOf: (id) => place.generationOf(id),
      isRecorded,
      note: (seen) => {
        if (!place.isDead()) this.seen.push(seen);
      },
      asked: (of, event) => void this.#answer(manager, of, event),
    };
    const program = this.#program;
    this.#programs.set(this.#code, program);
    const options = { version: this.#code, ifVersionChanged: "resume", restart, signal: pausing.signal } as const;
    const running = manager
      .run(task, (run) => executeTurn(program, run as Parameters<typeof executeTurn>[1], world), options)
      .then(
        (result) => ({ how: "completed", message: "", result }),
        (error: unknown) => {
          if (isPlanned(error)) return { how: isRecorded() ? "failed" : "stopped", message: String(error) };
          return { how: errorCode(error), message: String(error) };
        },
      );
    const ended = running.then((end) => {
      const how = end.how === "completed" || end.how === "failed" ? end.how : "stopped";
      world.note({ is: "ended", life: name, task, how });
      return end;
    });
    const end = await Promise.race([ended, place.reached]);
    await this.#thaw();
    if (end === undefined) {
      // As if they had expired.
      for (const [of, token] of place.claimed) await this.#recorded.leases?.release(of, token);
      if (!place.isDead()) this.#frozen = { place, running: ended, at: thawsAt };
      return { how: "killed", message: "" };
    }
    await manager.close();
    const expected = ["completed", "failed", ...(fault === undefined ? [] : EXPECTED[fault.how])];
    if (!expected.includes(end.how)) this.violations.push(`${name} of ${task} ended with ${end.how}: ${end.message}`);
    return end;
  }

  /** Lets a frozen life continue until it has ended. */
  async #thaw(): Promise<void> {
    const frozen = this.#frozen;
    this.#frozen = undefined;
    frozen?.place.thaw();
    if (frozen !== undefined) this.#thawing = frozen.running;
    await this.#thawing;
  }

  async #isCancelled(task: string): Promise<boolean> {
    return (await this.#manager.latest(task))?.error?.name === "RunCancelledError";
  }

  /** Does what happens between two lives. */
  async #prepare(task: string, { first, at }: Life, forks: string[]): Promise<void> {
    if (first === undefined || !(await this.#manager.has(task))) return;
    const records = await collect(this.#manager.records(task));
    const chosen = records[at % records.length];
    if (chosen === undefined) return;
    try {
      if (first === "rewind") await this.#manager.rewind(task, chosen.sequence);
      if (first === "fork") {
        const fork = `${task}-fork-${forks.length + 1}`;
        await this.#manager.fork(task, chosen.sequence, fork);
        this.seen.push({ is: "forked", task: fork, from: task });
        forks.push(fork);
      }
      if (first === "retry") await this.#retry(task, at);
      if (first === "refuse") await this.#refuse(task);
    } catch (error) {
      // A record of the start of a task has no checkpoint before it, and a cancelled task stays so.
      if (!["CHECKPOINT_NOT_FOUND", "RUN_CANCELLED"].includes(errorCode(error))) throw error;
    }
  }

  /** If the run has failed, drops its results from one of its steps on. */
  async #retry(task: string, at: number): Promise<void> {
    const newest = await this.#manager.latest(task);
    const run = newest && (await readRun(this.#manager, newest));
    const ended = run?.steps.filter(({ status }) => status === "completed" || status === "failed") ?? [];
    const step = ended[at % ended.length];
    if (newest?.status !== "failed" || run === undefined || step === undefined) return;
    const from = stepTitle(step.name, step.occurrence);
    await this.#manager.retry(task, { from });
    const state = newest.state as ProgramState | undefined;
    this.seen.push({ is: "dropped", task, generation: run.generation, at: state?.at ?? 0, from });
  }

  /** Another version is refused, and calls nothing. */
  async #refuse(task: string): Promise<void> {
    const refused = await this.#manager
      .run(task, () => "ran", { version: "another" })
      .catch((error: unknown) => errorCode(error));
    // A completed run returns its result.
    if (refused === "ran") this.violations.push(`${task} ran with another version`);
  }

  async #send(task: string, { name, isBad, copies }: Sending): Promise<void> {
    const event = this.#names[name % this.#names.length];
    if (event === undefined) return;
    this.#sent += 1;
    const value: EventValue = { id: `sent-${this.#sent}`, isBad };
    this.seen.push({ is: "sent", task, id: value.id, isBad });
    for (let copy = 0; copy < copies; copy++) await this.#manager.send(task, event, value, { id: value.id });
  }

  /** Answers a wait that has no time limit, sometimes with a bad event first. */
  async #answer(manager: CheckpointManager, task: string, name: string): Promise<void> {
    this.#sent += 1;
    const number = this.#sent;
    // It comes about when a tick does.
    await new Promise<void>((resolve) => this.#runtime.setTimeout(resolve, number % 4));
    for (const isBad of number % 4 === 0 ? [true, false] : [false]) {
      const value: EventValue = { id: `answer-${number}${isBad ? "-bad" : ""}`, isBad };
      this.seen.push({ is: "sent", task, id: value.id, isBad });
      const send = () => manager.send(task, name, value, { id: value.id });
      // If the write fails, once more. The life may also have ended, and its manager is closed.
      await send()
        .catch(send)
        .catch(() => "");
    }
  }

  /** Compares the end with what is stored. */
  async #compare(task: string, result: unknown): Promise<void> {
    const returned = this.seen.filter((line) => line.is === "returned" && line.task === task);
    const results = returned.map((line) => JSON.stringify("result" in line && line.result));
    if (!results.includes(JSON.stringify(result))) this.violations.push(`${task} has a result that no life returned`);
    const stored = await this.#manager.result(task);
    if (JSON.stringify(stored) !== JSON.stringify(result)) this.violations.push(`${task} has another result stored`);
    for (const { id, status } of await this.#manager.events(task)) this.seen.push({ is: "event", task, id, status });
    const states = new Set(this.seen.flatMap((line) => ("state" in line ? JSON.stringify(line.state) : [])));
    const saved = new Set(
      this.seen.flatMap((line) => (line.is === "got" && line.task === task && line.kind === "save" ? line.value : [])),
    );
    for await (const checkpoint of this.#manager.history(task, { order: "oldest" })) {
      const { id, state, status, stage } = checkpoint;
      saved.delete(id);
      if (isTransient(checkpoint) || status !== "running" || stage === undefined || state === undefined) continue;
      if (!states.has(JSON.stringify(state))) this.violations.push(`${task} has a milestone that no life saved`);
    }
    // A fork gets the answers of its origin, and not its milestones.
    if (saved.size > 0 && !task.includes("fork")) this.violations.push(`${task} lacks ${saved.size} milestones`);
  }

  #open(storage: StorageAdapter, process: string) {
    const logger = recordingLogger();
    const recorded = recordHistory(storage, { process, write: (line) => void this.history.push(line) });
    return {
      manager: new CheckpointManager({ storage: recorded, ownsStorage: false, logger, runtime: this.#runtime }),
      logger,
      recorded,
    };
  }
}

const EXPECTED: Readonly<Record<Fault["how"], readonly string[]>> = {
  killed: [],
  stored: [],
  frozen: [],
  paused: ["RUN_PAUSED"],
  // If it fails in a child run, the parent run is paused.
  failed: ["STORAGE_FAILED", "RUN_PAUSED", "stopped"],
  unsure: [],
  cancelled: ["RUN_CANCELLED", "stopped"],
};
