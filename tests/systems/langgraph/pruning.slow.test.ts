import { POLICIES, registerPruning } from "./pruning.js";

registerPruning("json-file", POLICIES.slice(0, 2));
registerPruning("task-file", POLICIES.slice(0, 2));
registerPruning("postgres", POLICIES.slice(0, 2));
