import type { Calls } from "./calls.js";
import type { ResolvedOptions } from "./options.js";
import type { CheckpointReader } from "./reader.js";
import { type RekeyOptions, type RekeyResult, rekeyStorage } from "./rekey.js";
import { type RepairOptions, type RepairResult, repairStorage } from "./repair.js";
import { type VerifyOptions, type VerifyResult, verifyStorage } from "./verify.js";

/** Finds and repairs damage, and re-encrypts states. Made by the manager: `manager.maintenance`. */
export class Maintenance {
  readonly #options: ResolvedOptions;
  readonly #calls: Calls;
  readonly #reader: CheckpointReader;

  /** @internal */
  constructor(options: ResolvedOptions, calls: Calls, reader: CheckpointReader) {
    this.#options = options;
    this.#calls = calls;
    this.#reader = reader;
  }

  /**
   * Checks all stored data and returns its findings. Changes nothing, and needs neither key nor schema.
   *
   * @throws {ClosedError} `close` stopped the verification.
   */
  async verify(options: VerifyOptions = {}): Promise<VerifyResult> {
    return this.#calls.run(() => verifyStorage(this.#options.storage, options, this.#calls.closing));
  }

  /**
   * Moves damaged checkpoints to the storage's quarantine, byte for byte and with the reason, and removes old leftovers
   * of killed writes. It deletes no saved data, and no sequence is assigned twice.
   *
   * @throws {UnsupportedOperationError} The storage offers no repair.
   * @throws {ClosedError} `close` stopped the repair between two checkpoints; another repair continues from there.
   */
  async repair(options: RepairOptions = {}): Promise<RepairResult> {
    return this.#calls.run(() => repairStorage(this.#options.storage, options, this.#calls.closing));
  }

  /**
   * Rewrites each checkpoint and each record of a log that the manager's transforms would store differently now,
   * because it has an old key or isn't encrypted or compressed yet. Ids, sequences, times and statuses stay. Other work
   * can run between two rewrites. The rekey may be stopped or killed at any moment. The next call skips what was
   * already rewritten.
   *
   * @returns Counts of checkpoints and records. If `signal` or `close` stopped the rekey, `left` counts those not yet
   *   visited.
   * @throws {UnsupportedOperationError} The storage can't replace payloads; nothing was changed.
   * @throws {KeyUnavailableError} A key can't be fetched; checkpoints rewritten before that keep their new payload.
   * @throws {TypeError} The manager has no transforms, or an option is misspelled.
   */
  async rekey(options: RekeyOptions = {}): Promise<RekeyResult> {
    return this.#calls.run(() => rekeyStorage(this.#options, this.#reader, options, this.#calls.closing));
  }
}
