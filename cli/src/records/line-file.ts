import { type FileHandle, open } from "node:fs/promises";

const FLUSH_AT = 256 * 1024;

/** How to create a file. */
export interface LineFileOptions {
  /** Whether an existing file may be replaced. */
  readonly replace?: boolean;
  /**
   * Makes the error for a failed call.
   *
   * @param code - The code of the failure: `ENOSPC`; `EEXIST` if the file exists.
   * @param isMade - Whether the file was created, so that it is incomplete now.
   */
  readonly failure: (code: string, isMade: boolean, cause: unknown) => Error;
}

/**
 * A new file of lines that only its owner may read. It needs no temporary name, because a missing trailer shows that it
 * is incomplete.
 */
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
