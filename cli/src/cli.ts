import type { Command } from "@commander-js/extra-typings";
import { Damage } from "./damage.js";
import { ExitCode } from "./exit-code.js";
import { Output } from "./output.js";
import { printable } from "./printable.js";
import { openStore, type Store, type StorePurpose } from "./store.js";

/** The options that every command has. A type, not an interface, as commander's types want it. */
export type GlobalOptions = {
  readonly storage?: string | undefined;
  readonly verbose?: true | undefined;
};

/** The `waymark` command, to which each file in commands/ adds one. */
export type Program = Command<[], GlobalOptions>;

/** One command: a file in commands/, listed in commands/index.ts. */
export interface CommandFile {
  /** As `waymark --help` shows it: a whole line that can be tried. At most 44 columns. */
  readonly example: string;
  /** Adds the command to the program, with its arguments, its options and what it does. */
  register(program: Program, cli: Cli): void;
}

/** What a command works with while it runs. */
export interface Session extends Store {
  readonly output: Output;
  readonly errors: Output;
  readonly damage: Damage;
}

/** What commands have in common: where they print, and how they come to their storage and leave it. */
export class Cli {
  readonly output = new Output(process.stdout, { name: "standard output", flushAt: 32 * 1024, mustArrive: true });
  readonly errors = new Output(process.stderr, { name: "standard error", flushAt: 0, mustArrive: false });
  /** What the process will exit with. */
  exitCode: ExitCode = ExitCode.done;
  readonly #globals: () => GlobalOptions;

  constructor(globals: () => GlobalOptions) {
    this.#globals = globals;
  }

  /** @param message - May hold any characters. */
  async warn(message: string): Promise<void> {
    await this.errors.line(`${this.errors.colors.yellow("warning:")} ${printable(message)}`);
  }

  /**
   * Opens the storage, does the work, and closes the storage however the work ends. Where the work came across damage,
   * the exit code says so.
   */
  async withStore(work: (session: Session) => Promise<void>, purpose: StorePurpose = "read"): Promise<void> {
    const damage = new Damage((warning) => this.warn(warning));
    const store = await openStore(this.#globals().storage, purpose, damage);
    try {
      await work({ ...store, damage, output: this.output, errors: this.errors });
    } finally {
      await damage.end();
      await store.manager.close();
      await store.storage.close();
    }
    if (damage.count > 0 && this.exitCode === ExitCode.done) this.exitCode = ExitCode.damaged;
  }
}
