import { POLICIES, registerPruning } from "./pruning.js";

registerPruning("sqlite", POLICIES.slice(0, 1));
registerPruning("json-file", POLICIES.slice(0, 2));
registerPruning("task-file", POLICIES.slice(0, 2));
registerPruning("postgres", POLICIES.slice(0, 2));
