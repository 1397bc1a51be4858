import { registerThreads } from "./threads.js";

// Slow: on files and on a server.
registerThreads(["json-file", "task-file", "postgres"]);
