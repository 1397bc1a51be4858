import { registerNames } from "./names.js";

registerNames("memory");
registerNames("json-file");
registerNames("task-file");
registerNames("postgres");
