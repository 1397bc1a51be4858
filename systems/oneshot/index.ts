import { moved } from "../moved.js";

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

/** @internal */
export const runOneshot = moved("runOneshot", "waymark-runners/oneshot");
/** @internal */
export const loadPlan = moved("loadPlan", "waymark-runners/oneshot");
/** @internal */
export const OneshotError = moved("OneshotError", "waymark-runners/oneshot");
