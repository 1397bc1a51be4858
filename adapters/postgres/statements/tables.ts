import { COLUMNS } from "../../sql/rows.js";

/** The names of a schema's tables in statements. */
export interface Tables {
  readonly tasks: string;
  readonly checkpoints: string;
  readonly pieces: string;
  readonly records: string;
  readonly leases: string;
  readonly quarantine: string;
}

export function quoteName(schema: string): string {
  return `"${schema.replaceAll('"', '""')}"`;
}

export function nameTables(schema: string): Tables {
  const table = (name: string) => `${quoteName(schema)}.${name}`;
  return {
    tasks: table("tasks"),
    checkpoints: table("checkpoints"),
    pieces: table("pieces"),
    records: table("records"),
    leases: table("leases"),
    quarantine: table("quarantine"),
  };
}

/** A checkpoint's columns in the table or subselect `c`, from `sequence` to `seal`. */
export const SUMMARY_COLUMNS = COLUMNS.map((name) => `c.${name}`).join(", ");
