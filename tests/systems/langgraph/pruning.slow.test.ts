import { POLICIES, registerPruning } from "./pruning.js";

registerPruning("memory");
registerPruning("sqlite", POLICIES.slice(0, 1));
// json-file keeps the same contract, and LangGraph's own suite runs on it.
registerPruning("task-file", POLICIES.slice(0, 2));
registerPruning("postgres", POLICIES.slice(0, 2));
