import { resolve } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import type { Logger } from "waymark";
import { type ProjectConfig, projectConfig } from "./config-file.js";
import { Damage } from "./damage.js";
import { ExitCode } from "./exit-code.js";
import { Interruption } from "./interruption.js";
import { withKeyAdvice } from "./key-advice.js";
import { Output, type OutputStream } from "./output.js";
import { printable } from "./printable.js";
import { shellCommand } from "./shell-command.js";
import { openStore, type QuerySession, type StorePurpose } from "./store.js";

/** The streams that a command reads and writes. `process` has all three. */
export interface Streams {
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean | undefined };
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
}

/** The options that every command has. A type, not an interface: commander's types require it. */
export type GlobalOptions = {
  readonly storage?: string | undefined;
  readonly config?: string | undefined;
  readonly verbose?: true | undefined;
};

/** The `waymark` command. Each file in commands/ adds a subcommand. */
export type Program = Command<[], GlobalOptions>;

/** One command: a file in commands/, listed in commands/index.ts. */
export interface CommandFile {
  /** A complete command line to try, for `waymark --help`. At most 44 columns. */
  readonly example: string;
  /** `waymark --help` names the commands of a group in one line, without examples, so that the help fits a screen. */
  readonly group?: "workers" | "plans" | "set up";
  /** The command doesn't open the storage of `--storage`. */
  readonly noStorage?: true;
  /** Adds the command to the program: its arguments, its options and its action. */
  register(program: Program, cli: Cli): void;
}

/** The storage and the streams of a running command. */
export interface Session extends QuerySession {
  readonly stdin: Streams["stdin"];
  readonly output: Output;
  readonly errors: Output;
  /** Returns a command line for the same storage, for the user to copy. */
  readonly commandText: (command: string, args: readonly string[], options?: readonly string[]) => string;
  /** Like `commandText`, but works in any folder: with `npx` and absolute paths. */
  readonly commandAnywhere: Session["commandText"];
}

/** The parts that commands share: where they print, and how they open and close their storage. */
export class Cli {
  readonly stdin: Streams["stdin"];
  readonly output: Output;
  readonly errors: Output;
  /** The logger for runs, on standard error. */
  readonly logger: Logger;
  /** The exit code of the process. */
  exitCode: ExitCode = ExitCode.done;
  /** The words after `waymark`. */
  readonly args: readonly string[];
  readonly #globals: () => GlobalOptions;
  #interruption: Interruption | undefined;
  #config: Promise<ProjectConfig> | undefined;
  #configFile: string | undefined;

  constructor({ stdin, stdout, stderr }: Streams, args: readonly string[], globals: () => GlobalOptions) {
    this.stdin = stdin;
    this.output = new Output(stdout, { name: "standard output", flushAt: 32 * 1024, mustArrive: true });
    this.errors = new Output(stderr, { name: "standard error", flushAt: 0, mustArrive: false });
    const say = (_details: object, message: string) => void this.errors.line(printable(message));
    const warn = (_details: object, message: string) => void this.warn(message);
    this.logger = { debug() {}, info: say, warn, error: warn };
    this.args = args;
    this.#globals = globals;
  }

  /** The configuration of `--config`, or the project's. It is loaded when it is first needed. */
  config(): Promise<ProjectConfig> {
    this.#config ??= projectConfig(this.#globals().config).then((config) => {
      this.#configFile = config.file;
      return config;
    });
    return this.#config;
  }

  /** Whether a flag, the variable or the configuration names a storage. */
  async namesStorage(): Promise<boolean> {
    const named = this.#globals().storage ?? (process.env["WAYMARK_STORAGE"] || undefined);
    return (named ?? (await this.config()).storage) !== undefined;
  }

  /** @param message - May contain any characters. */
  async warn(message: string): Promise<void> {
    await this.errors.line(`${this.errors.colors.yellow("warning:")} ${printable(message)}`);
  }

  /**
   * Returns a signal that Ctrl-C, SIGTERM and SIGHUP abort, so that the work can stop cleanly. The process ends later,
   * in `end`, once the command has reported what it did.
   *
   * @param lastWords - Called at a second signal, which ends the process without waiting for the work.
   */
  interruptible(lastWords?: () => Promise<void>): AbortSignal {
    this.#interruption = new Interruption(lastWords);
    return this.#interruption.signal;
  }

  /** Call once everything is printed. If a signal came, this ends the process. */
  async end(): Promise<void> {
    await this.#interruption?.end();
  }

  /**
   * Opens the storage, calls `work`, and closes the storage even if `work` fails. If the work met damage, the exit code
   * shows it.
   *
   * @param url - The storage, if the command has its own option for it.
   */
  async withStore(
    work: (session: Session) => Promise<void>,
    purpose: StorePurpose = "read",
    url?: string,
  ): Promise<void> {
    const damage = new Damage((warning) => this.warn(warning));
    const { storage, config } = this.#globals();
    // A wrong configuration is an error even if nothing in it is needed.
    if (config !== undefined) await this.config();
    const named = url ?? storage;
    const store = await openStore(named, () => this.config(), purpose, damage);
    const { location, name } = store;
    try {
      const { stdin, output, errors } = this;
      // The URL of a server may contain a password; the name doesn't.
      const shown = location?.scheme === "postgres" && named !== undefined ? name : named;
      const commandText: Session["commandText"] = (command, args, options = []) =>
        shellCommand(command, args, options, { storage: shown, config });
      const urlOptions = location?.scheme === "postgres" ? "" : (/\?.*/s.exec(named ?? "")?.[0] ?? "");
      const commandAnywhere: Session["commandText"] = (command, args, options = []) => {
        const file = config === undefined ? this.#configFile : resolve(config);
        return `npx ${shellCommand(command, args, options, { storage: location && name + urlOptions, config: file })}`;
      };
      await work({ ...store, damage, stdin, output, errors, commandText, commandAnywhere });
    } catch (error) {
      throw damage.withAdvice(await withKeyAdvice(error, store.config));
    } finally {
      await damage.end();
      await store.manager.close();
      await store.storage.close();
    }
    if (damage.count > 0 && this.exitCode === ExitCode.done) this.exitCode = ExitCode.damaged;
  }
}
