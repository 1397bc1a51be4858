import { registerJsonFile } from "./json-file.js";

registerJsonFile("quick");
