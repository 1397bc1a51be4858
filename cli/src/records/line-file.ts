import { type FileHandle, open } from "node:fs/promises";
import { CommandError, ExitCode } from "../exit-code.js";

const FLUSH_AT = 256 * 1024;

/**
 * A new file of lines that only its owner may read. It needs no temporary name, because a missing trailer shows that
 * the file is incomplete.
 */
export class LineFile {
  readonly #file: FileHandle;
  readonly #path: string;
  readonly #outcome: string;
  #pending = "";

  private constructor(file: FileHandle, path: string, outcome: string) {
    this.#file = file;
    this.#path = path;
    this.#outcome = outcome;
  }

  /**
   * @param outcome - For errors: `Nothing was removed.`
   * @param replace - Whether `--force` lets an existing file be replaced; `undefined` if there is no such option.
   * @throws {CommandError} The file exists, or can't be created.
   */
  static async create(path: string, outcome: string, replace?: boolean): Promise<LineFile> {
    try {
      return new LineFile(await open(path, replace ? "w" : "wx", 0o600), path, outcome);
    } catch (cause) {
      const code = codeOrText(cause);
      if (code !== "EEXIST") {
        throw new CommandError(ExitCode.failed, `${path} can't be created (${code}). ${outcome}`, { cause });
      }
      const what = `${path} is there already, and was left as it is`;
      const advice = `Name another file${replace === undefined ? "" : ", or replace it with --force"}.`;
      throw new CommandError(ExitCode.conflict, `${what}. ${advice} ${outcome}`, { cause });
    }
  }

  async line(text: string): Promise<void> {
    this.#pending += `${text}\n`;
    if (this.#pending.length >= FLUSH_AT) await this.#flush();
  }

  /** Writes the remaining lines and flushes the file to disk. */
  async end(): Promise<void> {
    await this.#flush();
    await this.#file.sync();
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  async #flush(): Promise<void> {
    const text = this.#pending;
    this.#pending = "";
    try {
      await this.#file.writeFile(text);
    } catch (cause) {
      const what = `Could not write to ${this.#path}: ${codeOrText(cause)}. It is incomplete: remove it.`;
      throw new CommandError(ExitCode.failed, `${what} ${this.#outcome}`, { cause });
    }
  }
}

function codeOrText(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : String(error);
}
