import { POLICIES, registerPruning } from "./pruning.js";

registerPruning("memory");
registerPruning("sqlite", POLICIES.slice(0, 1));
