import { COLUMNS } from "../../sql/rows.js";
import type { Tables } from "./tables.js";

/** The columns whose values come from a draft: all between `sequence` and `seal`. */
export const DRAFT_COLUMNS = COLUMNS.slice(1, -1);
const BIGINTS: readonly string[] = ["state_version", "size_bytes"];

/**
 * The values of an append and their types. Statements name them `i.task_id`, `i.expected` and so on. The bodies, which
 * are `bytea`, aren't included. If the append has no checkpoint, the checkpoint's columns are NULL, except
 * `created_at`, which is the last record's.
 */
const VALUES: Readonly<Record<string, string>> = {
  task_id: "text",
  is_text: "boolean",
  id_digest: "bytea",
  ...Object.fromEntries(DRAFT_COLUMNS.map((name) => [name, BIGINTS.includes(name) ? "bigint" : "text"])),
  before: "text", // the sealed text before the sequence
  after: "text", // the sealed text after it
  task_due_at: "text", // the task's due time: see nextDueAt and LogOptions.dueAt; due_at is the checkpoint's
  size: "bigint", // the number of sequences that the append takes
  chosen: "bigint", // the last of these sequences; NULL: take the next ones
  expected: "bigint", // the sequence of the task's newest checkpoint; NULL: any
  no_event_after: "bigint", // the sequence of the last event that the task may have; NULL: any
  token: "bigint", // the lease's fencing token; NULL: no lease
  form: "int", // 0: the body is stored in the checkpoint's row, otherwise as a piece
  builds_on: "bytea", // the name of the task's last text; empty: the task must have none; NULL: any
  last_text: "bytea", // the name of the task's new last text; NULL: unchanged
  replaced: "bigint", // the sequence of the checkpoint to remove
  replaced_seals: "text", // the seals that the replaced checkpoint may have, separated by spaces
  records: "json", // an array of RECORD_VALUES
  last_event: "bigint", // the number of the last event among the records, from 1; NULL: none is an event
  is_lazy: "boolean", // true: the commit isn't synced
};

/** The values of a record. Its body is a part of all records' bodies. */
const RECORD_VALUES = `number bigint, kind text, name text, record_key text, id text, id_digest bytea, created_at text,
      encoding text, sha256 bytea, size_bytes bigint, is_text boolean, before text, after text, body_start int, body_length int`;
const RECORD_COLUMNS = "kind, name, record_key, id, id_digest, created_at, encoding, sha256, size_bytes, is_text";

/** A statement with named values. `names` are the names of $1, $2 and so on. */
export interface NamedStatement {
  readonly text: string;
  readonly names: readonly string[];
}

/**
 * Reads the appends from the JSON array $1, and their bodies from $2, where they are concatenated, because JSON can't
 * contain bytes.
 */
const INPUT = `
  input AS (
    SELECT i.*, substring($2::bytea FROM i.body_start FOR i.body_length) AS body
    FROM json_to_recordset($1) AS i (
      ${Object.entries({ ...VALUES, body_start: "int", body_length: "int" })
        .map(([name, type]) => `${name} ${type}`)
        .join(", ")})
  ),`;

/**
 * The parts that a statement's appends need. Each part needs rights on more tables, and takes time: with the parts
 * `hasPieces` and `mayBegin` in every statement, a save took 3 % longer (2026-11-29, medians of 2,000).
 */
export interface AppendParts {
  readonly hasCheckpoints: boolean;
  readonly hasRecords: boolean;
  /** Whether payloads are stored as pieces. */
  readonly hasPieces: boolean;
  /** Whether an append may be the first one of its task. */
  readonly mayBegin: boolean;
  /** Whether appends have fencing tokens. */
  readonly isFenced: boolean;
  /** Whether appends remove checkpoints. */
  readonly isReplacing: boolean;
}

/**
 * Stores a checkpoint, records, or both. If another transaction has locked the task's row, the statement waits, and
 * then checks the conditions on the row as that transaction left it. The statement can't see other changes made during
 * the wait: after such a change, it returns no row, or fails because a key is taken.
 */
export function appendOne(tables: Tables): (parts: AppendParts) => NamedStatement {
  return cacheByParts((parts) => {
    const names = ["task_id"];
    const text = makeStatement(tables, { ...parts, isMany: false }).replaceAll(/\bi\.(\w+)/g, (_, name: string) => {
      if (!names.includes(name)) names.push(name);
      return `$${names.indexOf(name) + 1}::${VALUES[name] ?? "bytea"}`;
    });
    return { text, names };
  });
}

/**
 * Like {@link appendOne}, but for several tasks. Skips tasks whose row is locked, so that no two processes wait for
 * each other. (A process may wait for another one to insert the rows of new tasks, but all insert them in the order of
 * their ids.) `appendOne` is a separate statement because its $1 is the task's id, and because it waits. For a single
 * append, this statement takes 0.98 times as long as `appendOne` (a save), 1.01 times (a step) or 1.29 times (a record
 * that isn't synced; 2026-11-29, medians, in turns).
 */
export function appendMany(tables: Tables): (parts: AppendParts) => string {
  return cacheByParts((parts) => makeStatement(tables, { ...parts, isMany: true }));
}

function cacheByParts<Statement>(make: (parts: AppendParts) => Statement): (parts: AppendParts) => Statement {
  const made = new Map<string, Statement>();
  return (parts) => {
    const key = JSON.stringify(parts);
    const statement = made.get(key) ?? make(parts);
    made.set(key, statement);
    return statement;
  };
}

/**
 * Updates the rows of the tasks or inserts new ones, then inserts the records and checkpoints. Returns each task, its
 * last sequence and its checkpoint's seal. An append whose conditions don't hold is left out.
 *
 * LIMIT, ANY and subselects make the planner look up each task by its key, regardless of the table sizes that it
 * assumes.
 */
function makeStatement(
  { tasks, checkpoints, pieces, records, leases }: Tables,
  {
    hasCheckpoints,
    hasRecords,
    hasPieces,
    mayBegin,
    isFenced,
    isReplacing,
    isMany,
  }: AppendParts & { readonly isMany: boolean },
): string {
  const when = (condition: boolean, text: string) => (condition ? text : "");
  const [each, withEach] = isMany ? ["FROM input i", "JOIN input i USING (task_id)"] : ["", ""];
  const orSkip = when(isMany, "SKIP LOCKED");
  const fence = `
  -- Locks the leases, so that no claim of these tasks is granted before the commit.
  fence AS (
    SELECT l.task_id FROM ${leases} l ${when(isMany, ", input i")}
    WHERE l.task_id = i.task_id AND l.token = i.token AND l.expires_at > clock_timestamp() FOR SHARE OF l ${orSkip}
  ),`;
  const isAllowed = isMany
    ? "AND (i.token IS NULL OR i.task_id IN (SELECT task_id FROM fence))"
    : "AND EXISTS (SELECT FROM fence)";
  const isNext = `t.task_id = i.task_id ${when(isFenced, isAllowed)}
      AND coalesce(i.expected = coalesce(t.newest_sequence, 0), true)
      AND coalesce(t.last_event <= i.no_event_after, true)
      AND coalesce(i.chosen - i.size >= t.last_sequence, t.last_sequence < ${Number.MAX_SAFE_INTEGER})
      AND coalesce(i.builds_on = coalesce(t.last_text, ''), true)`;
  const held = `
  held AS (
    SELECT t.task_id FROM ${when(isMany, "input i CROSS JOIN LATERAL")} (
      SELECT task_id FROM ${tasks} t WHERE ${isNext} LIMIT 1 FOR UPDATE ${orSkip}) t
  ),`;
  const isHeld = (table: string) =>
    isMany ? `${table}.task_id = ANY (ARRAY(SELECT task_id FROM held))` : "EXISTS (SELECT FROM held)";
  const replaced = `
  replaced AS (
    DELETE FROM ${checkpoints} c ${when(isMany, "USING input i")}
    WHERE c.task_id = i.task_id AND c.sequence = i.replaced AND c.seal = ANY (string_to_array(i.replaced_seals, ' '))
      AND ${isHeld("c")} ${when(isMany, "AND c.sequence = ANY (ARRAY(SELECT replaced FROM input))")}
    RETURNING c.task_id
  ),`;
  const needsLock = isMany || isReplacing;
  const next = "coalesce(i.chosen, t.last_sequence + i.size)";
  const first = "coalesce(i.chosen, i.size)";
  const logged = `,
  logged AS (
    INSERT INTO ${records} (task_id, sequence, ${RECORD_COLUMNS}, body, seal)
    SELECT a.task_id, a.sequence - i.size + r.number, ${RECORD_COLUMNS.replaceAll(/\w+/g, "r.$&")},
      substring(${isMany ? "$2::bytea" : "i.record_bodies"} FROM r.body_start FOR r.body_length),
      sha256(convert_to(r.before || (a.sequence - i.size + r.number) || r.after, 'UTF8'))
    FROM appended a ${withEach} CROSS JOIN LATERAL json_to_recordset(i.records) AS r (${RECORD_VALUES})
  )`;
  const piece = `,
  piece AS (
    INSERT INTO ${pieces} (task_id, number, form, body)
    SELECT task_id, a.sequence, i.form, i.body FROM appended a ${withEach} WHERE i.form > 0
  )`;
  const insert = `
    INSERT INTO ${checkpoints} (task_id, sequence, is_text, body, id_digest, ${DRAFT_COLUMNS.join(", ")}, seal)
    SELECT task_id, a.sequence, i.is_text, CASE WHEN i.form = 0 THEN i.body END, i.id_digest,
      ${DRAFT_COLUMNS.map((name) => `i.${name}`).join(", ")},
      encode(sha256(convert_to(i.before || a.sequence || i.after, 'UTF8')), 'hex')
    FROM appended a ${withEach} ${when(hasRecords, "WHERE i.id IS NOT NULL")}
    RETURNING task_id, sequence, seal`;
  const begun = `,
  begun AS (
    INSERT INTO ${tasks} (task_id, count, last_sequence, newest_sequence, newest_created_at, newest_status, due_at,
      last_event, lazy_sequence, last_text)
    SELECT i.task_id, (i.id IS NOT NULL)::int, ${first}, CASE WHEN i.id IS NOT NULL THEN ${first} END, i.created_at,
      coalesce(i.status, ''), CASE WHEN i.id IS NOT NULL THEN i.task_due_at END,
      ${first} - i.size + i.last_event, CASE WHEN i.is_lazy THEN ${first} END, i.last_text
    ${each}
    WHERE coalesce(i.expected, 0) = 0 AND coalesce(i.builds_on, '') = '' AND coalesce(i.chosen >= i.size, true) ${when(isFenced, isAllowed)}
      AND ${isMany ? `(SELECT count FROM ${tasks} t WHERE t.task_id = i.task_id) IS NULL ORDER BY i.task_id` : "NOT EXISTS (SELECT FROM advanced)"}
    ON CONFLICT DO NOTHING RETURNING task_id, last_sequence AS sequence
  )`;

  const appended = `
  WITH ${when(isMany, INPUT)} ${when(isFenced, fence)} ${when(needsLock, held)} ${when(isReplacing, replaced)}
  advanced AS (
    UPDATE ${tasks} t SET
      count = t.count + (i.id IS NOT NULL)::int ${when(isReplacing, `- (SELECT count(*) FROM replaced ${when(isMany, "r WHERE r.task_id = t.task_id")})`)},
      last_sequence = ${next},
      newest_sequence = CASE WHEN i.id IS NULL THEN t.newest_sequence ELSE ${next} END,
      newest_created_at = CASE WHEN i.id IS NULL AND t.newest_sequence > 0 THEN t.newest_created_at ELSE i.created_at END,
      newest_status = coalesce(i.status, CASE WHEN t.newest_sequence > 0 THEN t.newest_status ELSE '' END),
      -- A record can only make the task due earlier, and a running task keeps an earlier time (see nextDueAt).
      due_at = CASE
        WHEN i.id IS NULL THEN CASE WHEN t.due_at > i.task_due_at THEN i.task_due_at ELSE t.due_at END
        WHEN i.status = 'running' AND t.due_at <= i.task_due_at THEN t.due_at ELSE i.task_due_at END,
      last_event = coalesce(${next} - i.size + i.last_event, t.last_event),
      lazy_sequence = CASE WHEN i.is_lazy THEN ${next} ELSE t.lazy_sequence END,
      last_text = coalesce(i.last_text, t.last_text)
    ${each}
    WHERE ${needsLock ? `t.task_id = i.task_id AND ${isHeld("t")}` : isNext}
    RETURNING t.task_id, t.last_sequence AS sequence
  )${when(mayBegin, begun)},
  appended AS (SELECT * FROM advanced ${when(mayBegin, "UNION ALL SELECT * FROM begun")})
  ${when(hasRecords, logged)}${when(hasPieces, piece)}`;
  if (!isMany && hasCheckpoints) return `${appended}${insert}`;
  // The setting applies until the transaction ends, so it applies to the commit.
  return `${appended}${when(hasCheckpoints, `, stored AS (${insert})`)}
  SELECT task_id, a.sequence, ${hasCheckpoints ? "s.seal" : "NULL"},
    CASE WHEN i.is_lazy THEN set_config('synchronous_commit', 'off', true) END
  FROM appended a ${withEach} ${when(hasCheckpoints, "LEFT JOIN stored s USING (task_id)")}`;
}
