import { registerTaskFile } from "./task-file.js";

registerTaskFile("slow");
