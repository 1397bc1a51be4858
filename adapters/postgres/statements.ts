import { appendMany, appendOne } from "./statements/append.js";
import { makeChangeStatements, makeMaintenanceStatements, makePrefixStatements } from "./statements/changes.js";
import { makeLeaseStatements, makeQueueStatements } from "./statements/leases.js";
import { makePieceStatements } from "./statements/pieces.js";
import { makeListStatements, makeReadStatements } from "./statements/reads.js";
import { makeRecordStatements } from "./statements/records.js";
import { nameTables } from "./statements/tables.js";

/**
 * Makes all statements on a schema's tables. Except for the statements across tasks, $1 is the task's id, so that a
 * database that distributes tables by this id asks only one machine.
 */
export function makeStatements(schema: string) {
  const tables = nameTables(schema);
  return {
    append: appendOne(tables),
    pieces: makePieceStatements(tables),
    reads: makeReadStatements(tables),
    records: makeRecordStatements(tables),
    changes: makeChangeStatements(tables),
    leases: makeLeaseStatements(tables),
    maintenance: makeMaintenanceStatements(tables),
    acrossTasks: {
      append: appendMany(tables),
      ...makeListStatements(tables),
      ...makePrefixStatements(tables),
      ...makeQueueStatements(tables),
    },
  };
}

export type PostgresStatements = ReturnType<typeof makeStatements>;
