import { type FileHandle, open } from "node:fs/promises";
import { CommandError, ExitCode } from "../exit-code.js";

const FLUSH_AT = 256 * 1024;

/** A new file of lines. A missing trailer shows that it is incomplete, so it needs no temporary name. */
export class ExportFile {
  readonly #path: string;
  readonly #file: FileHandle;
  #pending = "";

  private constructor(path: string, file: FileHandle) {
    this.#path = path;
    this.#file = file;
  }

  /** @throws {CommandError} The file exists, or can't be created. */
  static async create(path: string): Promise<ExportFile> {
    try {
      return new ExportFile(path, await open(path, "wx", 0o600));
    } catch (cause) {
      const code = codeOf(cause);
      const what =
        code === "EEXIST"
          ? `${path} exists, and an export is never written over anything`
          : `${path} can't be made (${code})`;
      throw new CommandError(
        ExitCode.usage,
        `${what}. Nothing was exported; name another file, or move that one away.`,
        { cause },
      );
    }
  }

  async line(text: string): Promise<void> {
    this.#pending += `${text}\n`;
    if (this.#pending.length >= FLUSH_AT) await this.#flush();
  }

  /** Writes the remaining lines and flushes the file to disk. */
  async end(): Promise<void> {
    await this.#flush();
    await this.#attempt(() => this.#file.sync());
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  async #flush(): Promise<void> {
    const text = this.#pending;
    this.#pending = "";
    await this.#attempt(() => this.#file.writeFile(text));
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (cause) {
      throw new CommandError(
        ExitCode.failed,
        `Could not write to ${this.#path}: ${codeOf(cause)}. The export is incomplete and has no trailer; remove it, free some space, and run it again.`,
        { cause },
      );
    }
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : String(error);
}
