import { registerTaskFile } from "./task-file.js";

// json-file, whose lock and commit are the same ones, runs the quick half in `npm test`.
registerTaskFile("quick");
registerTaskFile("slow");
