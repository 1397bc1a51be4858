import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

export type Machine = "A" | "B";

const WORKER = fileURLToPath(new URL("worker.js", import.meta.url));

/** A process of `node dist/worker.js`, and its output so far. */
export class WorkerProcess {
  readonly machine: Machine;
  readonly said: string[] = [];
  /** Resolves to the worker's stderr once it has ended. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  #isRunning = true;

  constructor(machine: Machine, taskId: string, url: string, onLine: (line: string) => void) {
    this.machine = machine;
    const child = spawn(process.execPath, [WORKER, taskId, machine], {
      env: { ...process.env, DATABASE_URL: url },
      stdio: ["ignore", "pipe", "pipe"],
      // Ctrl-C in the terminal must reach only the demonstration, which ends its workers.
      detached: true,
    });
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout });
    this.#lines.on("line", (line) => {
      this.said.push(line);
      onLine(line);
    });
    this.ended = Promise.all([text(child.stderr), once(child, "close")]).then(([stderr]) => {
      this.#isRunning = false;
      return stderr.trim();
    });
  }

  /** Resolves once the worker has printed a line with this beginning. */
  async says(beginning: string): Promise<void> {
    while (!this.said.some((line) => line.startsWith(beginning))) {
      if (!this.#isRunning) throw new Error(`${this.machine} ended before it said "${beginning}": ${await this.ended}`);
      await Promise.race([once(this.#lines, "line"), this.ended]);
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Returns the steps that the worker has begun, in order. */
  get begun(): number[] {
    return this.#steps("begins");
  }

  /** Returns the steps whose saves were acknowledged, in order. */
  get saved(): number[] {
    return this.#steps("saved");
  }

  /** Returns the step that the worker has begun but not saved, if there is one. */
  get stepUnderWay(): number | undefined {
    return this.begun.find((step) => !this.saved.includes(step));
  }

  #steps(what: "begins" | "saved"): number[] {
    return this.said.flatMap((line) => {
      const [word, step, verb] = line.split(" ");
      return word === "step" && verb === what ? [Number(step)] : [];
    });
  }
}
