// `waymark/kit`: what waymark-runners needs of the SDK and users don't. It is not for users, and carries no promise:
// any version may change it, so waymark-runners depends on the exact version of waymark that it was built with.
export { reasonOf } from "../adapters/files/failure.js";
export { nameOf } from "../adapters/files/names.js";
export {
  checkFunction,
  checkInteger,
  checkSignal,
  checkTaskId,
  checkText,
  MAX_DELAY_MS,
  MAX_TASK_ID_LENGTH,
} from "../src/contract/arguments.js";
export { isPromiseLike } from "../src/contract/built-ins.js";
export { isError } from "../src/contract/errors.js";
export { onAbort } from "../src/manager/abort-signals.js";
export { safeLogger, warningLogger } from "../src/manager/logger.js";
export { onTermination } from "../src/manager/termination.js";
export { isRecord } from "./json-object.js";
export { assertFresh, checkMaxAge, DEFAULT_MAX_AGE_MS, describeAge } from "./oneshot/staleness.js";
export { FeatureCheckpoints, type StoredFeature } from "./oneshot/storage.js";
export { enabledCheckpoints } from "./prp/checkpoint-manager.js";
export type { SessionCheckpoints } from "./prp/storage.js";
export { isStillBeingRun, RunLock, runLockPath } from "./run-lock.js";
