import { registerPostgres } from "./postgres.js";

registerPostgres("slow");
