import { registerThreads } from "./threads.js";

registerThreads(["memory", "json-file", "task-file", "postgres"]);
