import { registerPostgres } from "./postgres.js";

registerPostgres("quick");
registerPostgres("slow");
