import { registerNames } from "./names.js";

registerNames("json-file");
registerNames("task-file");
registerNames("postgres");
