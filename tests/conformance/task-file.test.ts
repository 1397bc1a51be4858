import { registerTaskFile } from "./task-file.js";

// json-file, whose lock and commit are the same ones, runs all of the suite.
registerTaskFile("quick");
