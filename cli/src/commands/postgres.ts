import { postgresDdl } from "waymark/adapters/postgres";
import type { CommandFile } from "../cli.js";

export const postgres: CommandFile = {
  example: "waymark postgres ddl | psql app",
  group: "set up",
  noStorage: true,
  register(program, cli) {
    const command = program
      .command("postgres")
      .summary("SQL of its tables")
      .description("For a PostgreSQL database whose tables an administrator makes by hand.");
    command
      .command("ddl")
      .description("Prints the SQL that creates the tables. Applying it again is safe.")
      .option("--schema <name>", "the schema of the tables", "waymark")
      .action(async ({ schema }) => {
        await cli.output.line(postgresDdl(schema).trimEnd());
      });
  },
};
