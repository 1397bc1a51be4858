import { registerOrder } from "./order.js";

// Slow: on files and on a server.
registerOrder(["json-file", "task-file", "postgres"]);
