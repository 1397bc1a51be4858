import { type FileHandle, open } from "node:fs/promises";

const FLUSH_AT = 256 * 1024;

/** How a new file is made. */
export interface LineFileOptions {
  /** Whether it may replace a file. */
  readonly replace?: boolean;
  /**
   * The error for a call that failed.
   *
   * @param code - The code of the failure: `ENOSPC`; `EEXIST` if there is a file.
   * @param isMade - Whether the file was made, so that it is incomplete now.
   */
  readonly failure: (code: string, isMade: boolean, cause: unknown) => Error;
}

/** A new file of lines, for its owner alone. A missing trailer shows that it is incomplete, so it needs no temporary name. */
export class LineFile {
  readonly #file: FileHandle;
  readonly #failure: LineFileOptions["failure"];
  #pending = "";

  private constructor(file: FileHandle, failure: LineFileOptions["failure"]) {
    this.#file = file;
    this.#failure = failure;
  }

  /** @throws The error of `failure`: the file exists, or can't be created. */
  static async create(path: string, { replace = false, failure }: LineFileOptions): Promise<LineFile> {
    try {
      return new LineFile(await open(path, replace ? "w" : "wx", 0o600), failure);
    } catch (cause) {
      throw failure(codeOf(cause), false, cause);
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
      throw this.#failure(codeOf(cause), true, cause);
    }
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : String(error);
}
