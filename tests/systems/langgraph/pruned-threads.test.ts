import { POLICIES, registerPruning } from "./pruning.js";

registerPruning(
  "memory",
  POLICIES.filter((_, at) => at % 2 === 1),
);
