// `waymark-runners/processes`: commands that end with the program that runs them.
export { BoundedCapture } from "./bounded-capture.js";
export {
  type Command,
  type CommandLine,
  type ProcessEnd,
  ProcessStartError,
  startCommand,
  type WatchOptions,
} from "./command.js";
export { CommandOutput, type OutputSink } from "./command-output.js";
export { type CommandResult, type RunOptions, runCommand } from "./run-command.js";
