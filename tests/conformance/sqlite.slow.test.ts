import { registerSqlite } from "./sqlite.js";

registerSqlite("slow");
