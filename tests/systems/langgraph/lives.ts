import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";

/**
 * Processes of one program that run one after another and are killed. The program begins when its stdin ends, so the
 * next processes start meanwhile.
 */
export class Lives {
  readonly #args: readonly string[];
  readonly #waiting: ChildProcess[] = [];

  /** @param args - The program and its arguments. */
  constructor(args: readonly string[]) {
    this.#args = args;
    onTestFinished(() => {
      for (const child of this.#waiting) child.kill("SIGKILL");
    });
  }

  /** Lets the next process live until it has printed a number of lines, or to its end. */
  async next(length: number): Promise<{ readonly lines: readonly string[]; readonly isKilled: boolean }> {
    while (this.#waiting.length < 3)
      this.#waiting.push(spawn(process.execPath, this.#args, { stdio: ["pipe", "pipe", "inherit"] }));
    const [child] = this.#waiting.splice(0, 1);
    if (child?.stdout == null) throw new Error("A process has no output.");
    const closed = once(child, "close");
    const lines: string[] = [];
    child.stdin?.end();
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line);
      if (lines.length === length) child.kill("SIGKILL");
    }
    const [, signal] = await closed;
    return { lines, isKilled: signal === "SIGKILL" };
  }
}
