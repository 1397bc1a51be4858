import { appendMany, appendOne } from "./statements/append.js";
import { changeStatements, maintenanceStatements, prefixStatements } from "./statements/changes.js";
import { leaseStatements, queueStatements } from "./statements/leases.js";
import { pieceStatements } from "./statements/pieces.js";
import { listStatements, readStatements } from "./statements/reads.js";
import { recordStatements } from "./statements/records.js";
import { tablesIn } from "./statements/tables.js";

/**
 * All statements on a schema's tables. Each names the task's id as $1, except the statements across tasks. So a database
 * that distributes tables by this id asks only one machine.
 */
export function statementsOn(schema: string) {
  const tables = tablesIn(schema);
  return {
    append: appendOne(tables),
    pieces: pieceStatements(tables),
    reads: readStatements(tables),
    records: recordStatements(tables),
    changes: changeStatements(tables),
    leases: leaseStatements(tables),
    maintenance: maintenanceStatements(tables),
    acrossTasks: {
      append: appendMany(tables),
      ...listStatements(tables),
      ...prefixStatements(tables),
      ...queueStatements(tables),
    },
  };
}

export type PostgresStatements = ReturnType<typeof statementsOn>;
