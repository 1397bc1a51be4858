import { registerSqlite } from "./sqlite.js";

registerSqlite("quick");
