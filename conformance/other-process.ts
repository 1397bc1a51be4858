import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type {
  AdapterCapabilities,
  AppendOptions,
  CheckpointQuery,
  StatusOptions,
  StorageAdapter,
  StoredTask,
  TaskQuery,
} from "../src/contract/adapter.js";
import type {
  CheckpointDraft,
  CheckpointSummary,
  Payload,
  StatusChange,
  StoredCheckpoint,
} from "../src/contract/checkpoint.js";
import type { AppendCondition } from "../src/contract/conditions.js";
import type { CorruptRecord } from "../src/contract/corrupt-record.js";
import type { HeldTask, LeaseStore } from "../src/contract/leases.js";
import { resolvePackage } from "../src/contract/load-package.js";
import type { LogItem, TaskLog } from "../src/contract/log.js";
import type { TaskQueue } from "../src/contract/task-queue.js";
import type { Call, Request, Response } from "./protocol.js";

/** The answer to a call in a killed process, if the call was answered before the kill. */
export interface LastWords {
  readonly answered: boolean;
  readonly answer?: unknown;
}

/** The callbacks of a call in another process. */
interface Waiting {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

/**
 * An adapter in another process, which is used like one in this process. The other process starts calls in call order,
 * runs them concurrently, and collects the items of an iteration before it sends them.
 */
export class OtherProcess implements StorageAdapter {
  readonly name = "other process";
  readonly capabilities: AdapterCapabilities;
  readonly leases: LeaseStore = {
    claim: (...args) => this.#call({ method: "claim", args }),
    renew: (...args) => this.#call({ method: "renew", args }),
    release: (...args) => this.#call({ method: "release", args }),
    current: (...args) => this.#call({ method: "current", args }),
    lapsed: (...args) => this.#call({ method: "lapsed", args }),
    held: () => this.#held(),
  };
  readonly queue: TaskQueue = {
    claimNext: (...args) => this.#call({ method: "claimNext", args }),
    count: (...args) => this.#call({ method: "count", args }),
  };
  readonly log: TaskLog = {
    append: (...args) => this.#call({ method: "log.append", args }),
    read: (...args) => this.#readLog(...args),
    remove: (...args) => this.#call({ method: "log.remove", args }),
    replacePayloads: (...args) => this.#call({ method: "log.replacePayloads", args }),
  };
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  readonly #ended: Promise<unknown>;
  #stdout = "";
  #stderr = "";
  #calls = 0;

  private constructor(moduleUrl: string, location: string, capabilities: AdapterCapabilities) {
    this.capabilities = capabilities;
    this.#child = fork(childScript(), [moduleUrl, location], {
      // The new process doesn't get this process's options, which may load a test runner.
      execArgv: [],
      // "advanced" sends bytes as bytes, and distinguishes a missing property from one that is `undefined`.
      serialization: "advanced",
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    this.#ended = once(this.#child, "close");
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.#stdout += text;
    });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
    });
    this.#child.on("message", (response: Response) => this.#settle(response));
  }

  /** Starts a process and opens the store in it. */
  static async start(moduleUrl: string, location: string, capabilities: AdapterCapabilities): Promise<OtherProcess> {
    const other = new OtherProcess(moduleUrl, location, capabilities);
    const opened = once(other.#child, "message");
    const first = await Promise.race([opened, other.#ended.then(() => "ended" as const)]);
    if (first === "ended") throw other.#endedEarly("it could open the store");
    void other.#ended.then(() => other.#giveUp());
    return other;
  }

  async append(draft: CheckpointDraft, condition?: AppendCondition, options?: AppendOptions): Promise<number> {
    return this.#call({ method: "append", args: [draft, condition, options] });
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    return this.#call({ method: "get", args: [taskId, id] });
  }

  async *read(query: CheckpointQuery): AsyncIterable<StoredCheckpoint | CorruptRecord> {
    yield* await this.#call<(StoredCheckpoint | CorruptRecord)[]>({ method: "read", args: [query] });
  }

  async *list(query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord> {
    yield* await this.#call<(CheckpointSummary | CorruptRecord)[]>({ method: "list", args: [query] });
  }

  async *tasks(query: TaskQuery): AsyncIterable<StoredTask | CorruptRecord> {
    yield* await this.#call<(StoredTask | CorruptRecord)[]>({ method: "tasks", args: [query] });
  }

  async setStatus(
    taskId: string,
    id: string,
    change: StatusChange,
    condition?: AppendCondition,
    options?: StatusOptions,
  ): Promise<boolean> {
    return this.#call({ method: "setStatus", args: [taskId, id, change, condition, options] });
  }

  async remove(taskId: string, ids: readonly string[] | "all", condition?: AppendCondition): Promise<number> {
    return this.#call({ method: "remove", args: [taskId, ids, condition] });
  }

  async replacePayload(taskId: string, id: string, payload: Payload, expectedSha256: string): Promise<boolean> {
    return this.#call({ method: "replacePayload", args: [taskId, id, payload, expectedSha256] });
  }

  /** Closes the adapter in the other process. */
  async close(): Promise<void> {
    await this.#call({ method: "close", args: [] });
  }

  /** Makes the call in the other process, and kills the process (SIGKILL) as soon as the call's promise resolves. */
  async dieAfter(call: Call): Promise<unknown> {
    this.#send({ kind: "die-after", call });
    const { answered, answer } = await this.#lastWords();
    if (!answered) throw this.#endedEarly("it had answered");
    return answer;
  }

  /**
   * Makes the call in the other process, and kills the process after this many turns of its event loop, or as soon as
   * the call is answered.
   */
  async dieWithin(turns: number, call: Call): Promise<LastWords> {
    this.#send({ kind: "die-within", call, turns });
    return this.#lastWords();
  }

  /** Stops the process (SIGSTOP) until {@link continue}, as a machine that sleeps would. */
  pause(): void {
    this.#child.kill("SIGSTOP");
  }

  continue(): void {
    this.#child.kill("SIGCONT");
  }

  /** Closes the adapter and ends the process, unless it was killed. */
  async stop(): Promise<void> {
    const { connected } = this.#child;
    if (connected) this.#send({ kind: "end" });
    await this.#ended;
    if (connected && this.#child.exitCode !== 0) throw this.#endedEarly("it could close the store");
  }

  async *#readLog(...args: Parameters<TaskLog["read"]>): AsyncIterable<LogItem> {
    yield* await this.#call<LogItem[]>({ method: "log.read", args });
  }

  async *#held(): AsyncIterable<HeldTask> {
    yield* await this.#call<HeldTask[]>({ method: "held", args: [] });
  }

  async #call<Answer>(call: Call): Promise<Answer> {
    const number = ++this.#calls;
    const answered = new Promise<unknown>((resolve, reject) => this.#waiting.set(number, { resolve, reject }));
    this.#send({ kind: "answer", number, call });
    // The answer has the method's type, because the same method returned it in the other process, and the channel
    // doesn't change it.
    return (await answered) as Answer;
  }

  #send(request: Request): void {
    this.#child.send(request, (error) => {
      if (error) this.#giveUp();
    });
  }

  /** Rejects the waiting calls. The process has ended, so no more answers come. */
  #giveUp(): void {
    for (const { reject } of this.#waiting.values()) reject(this.#endedEarly("it had answered"));
    this.#waiting.clear();
  }

  #settle(response: Response): void {
    if (response.kind === "opened") return;
    const waiting = this.#waiting.get(response.number);
    this.#waiting.delete(response.number);
    if (response.kind === "answered") waiting?.resolve(response.answer);
    else waiting?.reject(Object.assign(new Error(response.message), { code: response.code }));
  }

  async #lastWords(): Promise<LastWords> {
    await this.#ended;
    if (this.#stdout === "") return { answered: false };
    const words: unknown = JSON.parse(this.#stdout);
    if (typeof words === "object" && words !== null && "answer" in words) {
      return { answered: true, answer: words.answer };
    }
    throw new Error(`The call was refused in the other process: ${this.#stdout}`);
  }

  #endedEarly(what: string): Error {
    return new Error(`The other process ended before ${what}. ${this.#stderr}`.trimEnd());
  }
}

/**
 * Returns the path of the built script, next to the built suite. This file may be the source, compiled by a test
 * runner, so its own location doesn't help.
 */
function childScript(): string {
  const suite = resolvePackage("waymark/conformance");
  const script = join(dirname(suite), "child.js");
  if (!existsSync(script))
    throw new Error(`${script} is missing. Build waymark first, since its suite starts processes.`);
  return script;
}
