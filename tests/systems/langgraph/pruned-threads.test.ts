import { registerPruning } from "./pruning.js";

registerPruning("memory");
