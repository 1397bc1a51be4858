import { CheckpointCorruptError, type CorruptRecord } from "waymark";
import { CommandError, ExitCode } from "./exit-code.js";

const SHOWN = 5;
const MAX_KNOWN = 1000;
const ADVICE = '"waymark verify" lists all damage, and "waymark repair" moves it away.';

/** The known fields of a record that can't be read. */
export type DamagedRecord = Pick<CorruptRecord, "location" | "reason" | "taskId" | "id" | "sequence">;

/** Collects records that can't be read. */
export interface DamageSink {
  add(record: DamagedRecord): Promise<void>;
}

/**
 * Returns a key that identifies a damaged record. If the sequence is known, the key doesn't contain the location,
 * because listing and reading may report different locations.
 */
export function identify({ taskId, id, sequence, location }: DamagedRecord): string {
  return sequence === undefined ? location : JSON.stringify([taskId, sequence, id]);
}

/** Returns a text such as `@2, @3 can't be read`; `undefined` if nothing is damaged. */
export function damageText(records: readonly Pick<DamagedRecord, "sequence">[]): string | undefined {
  if (records.length === 0) return undefined;
  const places = records.slice(0, SHOWN).map(({ sequence }) => (sequence === undefined ? "a record" : `@${sequence}`));
  return `${places.join(", ")}${records.length > SHOWN ? ", …" : ""} can't be read`;
}

/** The requested checkpoint can't be read. A caller that skips the checkpoint adds `record` to the damage. */
export class DamagedCheckpointError extends CheckpointCorruptError {
  readonly record: DamagedRecord;

  /** @param what - The checkpoint, as the user knows it: `Checkpoint @7 of task "build-42"`. */
  constructor(what: string, record: CorruptRecord, outcome = "It was left untouched.") {
    super(`${what} can't be read: ${record.reason} (${record.location}). ${outcome}`, { cause: record.cause });
    this.record = record;
  }
}

/** The damage that a command met. It warns of the first few records, and the exit code shows that there was damage. */
export class Damage implements DamageSink {
  readonly #print: (warning: string) => Promise<void>;
  /** The keys of the records so far: each record counts once. */
  readonly #known = new Set<string>();
  readonly #byTask = new Map<string, DamagedRecord[]>();
  #count = 0;

  /** @param print - Prints a warning, which may contain any characters. */
  constructor(print: (warning: string) => Promise<void>) {
    this.#print = print;
  }

  get count(): number {
    return this.#count;
  }

  async add(record: DamagedRecord): Promise<void> {
    const key = identify(record);
    if (this.#known.has(key)) return;
    if (this.#known.size < MAX_KNOWN) {
      this.#known.add(key);
      const { taskId = "" } = record;
      this.#byTask.set(taskId, [...this.of(taskId), record]);
    }
    this.#count += 1;
    if (this.#count > SHOWN) return;
    await this.warn(`skipped a damaged record at ${record.location}: ${record.reason}`);
  }

  /** Returns the damaged records of a task. */
  of(taskId: string): readonly DamagedRecord[] {
    return this.#byTask.get(taskId) ?? [];
  }

  /** Prints the advice once, for all damage. */
  async end(): Promise<void> {
    if (this.#count > SHOWN) await this.warn(`${this.#count - SHOWN} more can't be read`);
    if (this.#count > 0) await this.warn(`Damaged records were left untouched. ${ADVICE}`);
  }

  /**
   * Returns the error that ended the command. If the error is about damage and {@link end} won't print the advice, the
   * advice is added to the error.
   */
  withAdvice(error: unknown): unknown {
    if (!(error instanceof DamagedCheckpointError) || this.#count > 0) return error;
    return new CommandError(ExitCode.damaged, `${error.message} ${ADVICE}`, { cause: error });
  }

  async warn(message: string): Promise<void> {
    await this.#print(message);
  }
}
