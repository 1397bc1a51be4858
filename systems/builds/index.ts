export { type BuildCheckpoints, createBuildCheckpoints } from "./build-checkpoints.js";
export type {
  BuildProgress,
  BuildState,
  Checkpoint,
  NewCheckpoint,
  SavedBuild,
  SavedCheckpoint,
} from "./checkpoint.js";
export type { BuildCheckpointsOptions } from "./options.js";
