export {
  CheckpointRepository,
  type CheckpointRepositoryOptions,
  type LoadOptions,
} from "./checkpoint-repository.js";
export {
  type OneshotCheckpoint,
  OneshotCheckpointSchema,
  OneshotFileSchema,
  type OneshotRunState,
  OneshotRunStateSchema,
  type OneshotStatus,
} from "./schema.js";
