import { registerTaskFile } from "./task-file.js";

// json-file uses the same lock and commit, and runs the quick half in `npm test`.
registerTaskFile("quick");
registerTaskFile("slow");
