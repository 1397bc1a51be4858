export type { Checkpoint } from "./checkpoint.js";
