import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm, truncate } from "node:fs/promises";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type Answer, HANGING_MS, killGroup, type Recorded, straceCommand } from "./crash-process.js";
import { plain, type Question, type StoreKind } from "./operations.js";
import { parseRecord } from "./system-calls.js";

const PROGRAM = fileURLToPath(new URL("examiner.mjs", import.meta.url));

export type Examined = Omit<Recorded, "signal">;

/**
 * A process under strace that opens the stores of killed processes, one after another. Its findings are the same as
 * those of a new process for each store: it has never had the store open before, and locks, connections and an
 * adapter's memory belong to one store and its new adapter.
 */
export class Examiner implements AsyncDisposable {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #closed: Promise<unknown[]>;
  readonly #lines: AsyncIterator<string>;
  readonly #record: string;
  #stderr = "";

  /**
   * @param record - The file that strace writes.
   * @param calls - The calls that strace records.
   */
  constructor(kind: StoreKind, record: string, calls: readonly string[]) {
    // strace appends to the record (-A), because the record is emptied before each store.
    const [command = "", ...args] = [...straceCommand(record, { calls, data: true }), "-A"];
    const environment = { ...process.env, UV_THREADPOOL_SIZE: "1" };
    this.#child = spawn(command, [...args, process.execPath, PROGRAM, kind], { detached: true, env: environment });
    this.#closed = once(this.#child, "close");
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
    this.#record = record;
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
    });
    // If the process has ended, its answers are missing.
    this.#child.stdin.on("error", () => undefined);
  }

  /** Asks about the store in the folder. All earlier questions must have been answered. */
  async ask(folder: string, questions: readonly Question[]): Promise<Examined> {
    const isHanging = setTimeout(() => killGroup(this.#child), HANGING_MS);
    // Before the first store, strace may not have created the file yet.
    await truncate(this.#record).catch(() => undefined);
    this.#child.stdin.write(`${JSON.stringify([folder, plain(questions)])}\n`);
    const answers: Answer[] = [];
    let line = await this.#lines.next();
    for (; !line.done && !line.value.startsWith("["); line = await this.#lines.next()) {
      answers.push(JSON.parse(line.value) as Answer);
    }
    const history = line.done ? [] : (JSON.parse(line.value) as string[]);
    clearTimeout(isHanging);
    const stderr = this.#stderr;
    this.#stderr = "";
    return { answers, history, stderr, ...parseRecord(await readFile(this.#record, "utf8")) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.stdin.end();
    const [exitCode] = await this.#closed;
    await rm(this.#record, { force: true });
    // Catches errors after the last answer, such as a timer that throws, which would otherwise go unnoticed.
    if (exitCode !== 0 || this.#stderr !== "") throw new Error(`The examiner ended with ${exitCode}: ${this.#stderr}`);
  }
}
