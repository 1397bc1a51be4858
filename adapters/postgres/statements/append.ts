import { COLUMNS } from "../../sql/rows.js";
import type { Tables } from "./tables.js";

/** The columns that a draft describes: all between `sequence` and `seal`. */
export const DRAFT_COLUMNS = COLUMNS.slice(1, -1);
const BIGINTS: readonly string[] = ["state_version", "size_bytes"];

/**
 * The values of an append and their types. Statements name them `i.task_id`, `i.expected` and so on. The body, which is
 * `bytea`, isn't among them.
 */
const VALUES: Readonly<Record<string, string>> = {
  task_id: "text",
  is_text: "boolean",
  id_digest: "bytea",
  ...Object.fromEntries(DRAFT_COLUMNS.map((name) => [name, BIGINTS.includes(name) ? "bigint" : "text"])),
  before: "text", // the sealed text before the sequence
  after: "text", // the sealed text after it
  task_due_at: "text", // see nextDueAt; due_at is the field of the checkpoint
  chosen: "bigint", // the sequence; NULL: the next one
  expected: "bigint", // the task's newest sequence; NULL: any
  token: "bigint", // the lease's; NULL: no lease
  form: "int", // 0: the body is stored in the checkpoint's row, otherwise as a piece
  builds_on: "bytea", // the task's last text; empty: it must have none; NULL: any
  last_text: "bytea", // the task's last text from now on; NULL: as before
  replaced: "bigint", // the sequence of the checkpoint to remove
  replaced_seals: "text", // the seals that it may have, separated by spaces
};

/** A statement whose values have names. `names` are those of $1, $2 and so on. */
export interface NamedStatement {
  readonly text: string;
  readonly names: readonly string[];
}

/** The appends in the JSON array $1. $2 has all bodies, one after another, because JSON can't contain bytes. */
const INPUT = `
  input AS (
    SELECT i.*, substring($2::bytea FROM i.body_start FOR i.body_length) AS body
    FROM json_to_recordset($1) AS i (
      ${Object.entries({ ...VALUES, body_start: "int", body_length: "int" })
        .map(([name, type]) => `${name} ${type}`)
        .join(", ")})
  ),`;

/** Optional parts of an append. Each needs rights on further tables, and takes time. */
interface AppendParts {
  /** Whether appends have tokens. */
  readonly isFenced?: boolean;
  /** Whether appends remove checkpoints. */
  readonly isReplacing?: boolean;
}

/** The four combinations of an append's optional parts. */
function combine<Statement>(make: (parts: AppendParts) => Statement) {
  return {
    plain: make({}),
    fenced: make({ isFenced: true }),
    replacing: make({ isReplacing: true }),
    fencedReplacing: make({ isFenced: true, isReplacing: true }),
  };
}

/**
 * Stores one checkpoint. If another transaction has locked the task's row, it waits, and then checks the conditions on
 * the row as that transaction left it. It can't see other changes made during the wait. After such a change it returns
 * no row, or fails because a key is taken.
 */
export function appendOne(tables: Tables) {
  return combine((parts): NamedStatement => {
    const names = ["task_id"];
    const text = appendStatement(tables, { ...parts, isMany: false }).replaceAll(/\bi\.(\w+)/g, (_, name: string) => {
      if (!names.includes(name)) names.push(name);
      return `$${names.indexOf(name) + 1}::${VALUES[name] ?? "bytea"}`;
    });
    return { text, names };
  });
}

/**
 * Stores checkpoints of several tasks. It leaves out tasks whose row is locked, so that no two processes wait for each
 * other. (One may wait for another to insert the rows of new tasks, but all insert them in the order of their ids.)
 */
export function appendMany(tables: Tables) {
  return combine((parts) => appendStatement(tables, { ...parts, isMany: true }));
}

/**
 * Updates the rows of the tasks or inserts new ones, then inserts the checkpoints. Returns the task, sequence and seal of
 * each. An append whose conditions don't hold is left out.
 *
 * LIMIT, ANY and subselects make the planner look up each task by its key, whatever table sizes it assumes.
 */
function appendStatement(
  { tasks, checkpoints, pieces, leases }: Tables,
  { isFenced = false, isReplacing = false, isMany }: AppendParts & { readonly isMany: boolean },
): string {
  const when = (condition: boolean, text: string) => (condition ? text : "");
  const [each, withEach] = isMany ? ["FROM input i", "JOIN input i USING (task_id)"] : ["", ""];
  const orSkip = when(isMany, "SKIP LOCKED");
  const fence = `
  -- Nobody can claim these tasks before the commit.
  fence AS (
    SELECT l.task_id FROM ${leases} l ${when(isMany, ", input i")}
    WHERE l.task_id = i.task_id AND l.token = i.token AND l.expires_at > clock_timestamp() FOR SHARE OF l ${orSkip}
  ),`;
  const isAllowed = isMany
    ? "AND (i.token IS NULL OR i.task_id IN (SELECT task_id FROM fence))"
    : "AND EXISTS (SELECT FROM fence)";
  const isNext = `t.task_id = i.task_id ${when(isFenced, isAllowed)}
      AND coalesce(i.expected = coalesce(t.newest_sequence, 0), true)
      AND coalesce(i.chosen > t.last_sequence, t.last_sequence < ${Number.MAX_SAFE_INTEGER})
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
  return `
  WITH ${when(isMany, INPUT)} ${when(isFenced, fence)} ${when(needsLock, held)} ${when(isReplacing, replaced)}
  advanced AS (
    UPDATE ${tasks} t SET
      count = t.count + 1 ${when(isReplacing, `- (SELECT count(*) FROM replaced ${when(isMany, "r WHERE r.task_id = t.task_id")})`)},
      last_sequence = coalesce(i.chosen, t.last_sequence + 1),
      newest_sequence = coalesce(i.chosen, t.last_sequence + 1),
      newest_created_at = i.created_at,
      newest_status = i.status,
      -- A running task keeps an earlier time (see nextDueAt).
      due_at = CASE WHEN i.status = 'running' AND t.due_at <= i.task_due_at THEN t.due_at ELSE i.task_due_at END,
      last_text = coalesce(i.last_text, t.last_text)
    ${each}
    WHERE ${needsLock ? `t.task_id = i.task_id AND ${isHeld("t")}` : isNext}
    RETURNING t.task_id, t.last_sequence AS sequence
  ),
  begun AS (
    INSERT INTO ${tasks}
      (task_id, count, last_sequence, newest_sequence, newest_created_at, newest_status, due_at, last_text)
    SELECT i.task_id, 1, coalesce(i.chosen, 1), coalesce(i.chosen, 1), i.created_at, i.status, i.task_due_at, i.last_text
    ${each}
    WHERE coalesce(i.expected, 0) = 0 AND coalesce(i.builds_on, '') = '' ${when(isFenced, isAllowed)}
      AND ${isMany ? `(SELECT count FROM ${tasks} t WHERE t.task_id = i.task_id) IS NULL ORDER BY i.task_id` : "NOT EXISTS (SELECT FROM advanced)"}
    ON CONFLICT DO NOTHING RETURNING task_id, last_sequence AS sequence
  ),
  appended AS (SELECT * FROM advanced UNION ALL SELECT * FROM begun),
  piece AS (
    INSERT INTO ${pieces} (task_id, number, form, body)
    SELECT task_id, a.sequence, i.form, i.body FROM appended a ${withEach} WHERE i.form > 0
  )
  INSERT INTO ${checkpoints} (task_id, sequence, is_text, body, id_digest, ${DRAFT_COLUMNS.join(", ")}, seal)
  SELECT task_id, a.sequence, i.is_text, CASE WHEN i.form = 0 THEN i.body END, i.id_digest,
    ${DRAFT_COLUMNS.map((name) => `i.${name}`).join(", ")},
    encode(sha256(convert_to(i.before || a.sequence || i.after, 'UTF8')), 'hex')
  FROM appended a ${withEach}
  RETURNING task_id, sequence, seal`;
}
