import type { SqliteDriver, SqliteDriverName } from "../../adapters/sqlite/driver.js";
import { checkDatabaseOptions } from "../../adapters/sqlite/opening.js";
import { checkFunction, checkInteger, checkKeys, formWith, listKeys } from "../../src/contract/arguments.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import type { Logger } from "../../src/manager/logger.js";
import { checkLogger } from "../../src/manager/options.js";
import { checkRetentionPolicy, type RetentionPolicy } from "../../src/manager/retention-plan.js";
import type { StateSchema } from "../../src/manager/schema.js";

export interface BuildCheckpointsOptions<Schema extends StateSchema = StateSchema> {
  /** The database file. The first save creates it and its folder, readable only by the owner (0600, 0700). */
  readonly path: string;
  /**
   * Which of a build's checkpoints are kept after each save. Default `{ keepLast: 50 }`. The build's newest checkpoint
   * always stays. For `keepStages`, a checkpoint's stage is `phase-` and its `currentPhase`.
   */
  readonly retention?: RetentionPolicy | undefined;
  /** Checks each task on save and on load: Zod, or any synchronous Standard Schema. It types the tasks. */
  readonly taskSchema?: Schema | undefined;
  /** The size limit of a save's tasks as JSON; its metadata has the same limit. Default 64 MiB. */
  readonly maxPayloadBytes?: number | undefined;
  /** How long a call waits for another process's lock, in milliseconds. Default 5,000. */
  readonly busyTimeoutMs?: number | undefined;
  /** Called with each row that can't be read; the row is skipped. Default: a warning is logged. */
  readonly onCorrupt?: ((record: CorruptRecord) => void) | undefined;
  /** A pino logger, or one of the same shape. Default: warnings and errors become process warnings. */
  readonly logger?: Logger | undefined;
  /** better-sqlite3's `Database`, or a compatible class. Default: the installed better-sqlite3. */
  readonly driver?: SqliteDriver | SqliteDriverName | undefined;
}

const NAME = "BuildCheckpointsOptions";
const KEYS = listKeys<BuildCheckpointsOptions>({
  path: true,
  retention: true,
  taskSchema: true,
  maxPayloadBytes: true,
  busyTimeoutMs: true,
  onCorrupt: true,
  logger: true,
  driver: true,
});

/** @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it. */
export function checkOptions(options: BuildCheckpointsOptions): void {
  checkKeys(NAME, options, KEYS, formWith("path", options));
  checkDatabaseOptions(NAME, options);
  if (options.retention !== undefined) checkRetentionPolicy(options.retention);
  if (options.taskSchema !== undefined && typeof options.taskSchema?.["~standard"]?.validate !== "function") {
    throw new TypeError(`${NAME}.taskSchema must be a Standard Schema: Zod 3.24 or newer, Valibot, ArkType.`);
  }
  checkInteger(`${NAME}.maxPayloadBytes`, options.maxPayloadBytes, 1);
  checkFunction(`${NAME}.onCorrupt`, options.onCorrupt);
  checkLogger(NAME, options.logger);
}
