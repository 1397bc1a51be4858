import type { Logger, StepCall } from "waymark";
import { coderCommand } from "../coders/coder-command.js";
import { type CoderReport, quoteEnd, REPORT_BYTES, reportOf } from "../coders/coder-report.js";
import { CommandOutput, type OutputSink, textSink } from "../processes/command-output.js";
import { type CommandResult, runCommand } from "../processes/run-command.js";
import { gateLine } from "../prp/gates/gate-line.js";
import { openSink, type PrpOutput } from "../prp/output.js";

/** Where commands run, and where they show their output. */
export interface CommandSettings {
  readonly cwd: string;
  readonly output: PrpOutput | undefined;
  readonly logger: Logger;
}

export interface CoderLine {
  readonly coder: string;
  readonly prompt: string;
  readonly session: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number | undefined;
}

/** How much of a command's output is kept and shown to the coder. */
const KEPT_BYTES = 16 * 1024;
/** How much of a command's output is streamed into the log, in characters. */
const MAX_STREAMED = 1024 * 1024;

/** Calls a coder. If the session to continue no longer exists, begins a new session. */
export async function callCoder(
  line: CoderLine,
  taskId: string,
  step: StepCall,
  settings: CommandSettings,
): Promise<CoderReport> {
  const { command, continues } = coderCommand(line.coder, line.session);
  const output = new CommandOutput(KEPT_BYTES, REPORT_BYTES);
  const shell = { command, cwd: settings.cwd, env: line.env, input: line.prompt };
  const report = reportOf(await run(shell, { taskId, kind: "coder" }, output, line.timeoutMs, step, settings));
  const isGone =
    /(?:session|conversation|thread|rollout)\b.*\b(?:not found|missing|unknown|does not exist|expired)|no (?:conversation|session|thread|rollout)\b/i;
  if (continues && report.error !== undefined && isGone.test(report.error))
    return callCoder({ ...line, session: undefined }, taskId, step, settings);
  return { ...report, text: quoteEnd(report.text) };
}

/** Runs a gate in the same way as the gates of PRPs. */
export async function runGate(
  command: string,
  timeoutMs: number,
  taskId: string,
  step: StepCall,
  settings: CommandSettings,
): Promise<CommandResult> {
  const line = await gateLine({ command, lines: [] }, settings.cwd);
  return run(line, { taskId, kind: "gate" }, new CommandOutput(KEPT_BYTES), timeoutMs, step, settings);
}

async function run(
  line: Parameters<typeof runCommand>[0],
  source: { readonly taskId: string; readonly kind: "coder" | "gate" },
  output: CommandOutput,
  timeoutMs: number | undefined,
  { signal, write }: StepCall,
  { output: shown, logger }: CommandSettings,
): Promise<CommandResult> {
  const sink = (stream: "stdout" | "stderr") => streaming(openSink(shown, { ...source, stream }, logger), write);
  const result = await runCommand(line, { timeoutMs, signal, output, stdout: sink("stdout"), stderr: sink("stderr") });
  if (result.aborted) throw signal.reason;
  return result;
}

/** Returns a sink that also writes the output to the step's log, up to a bound. */
function streaming(shown: OutputSink, write: StepCall["write"]): OutputSink {
  let left = MAX_STREAMED;
  const log = textSink((text) => {
    if (text === "" || left <= 0) return;
    left -= text.length;
    void write(left > 0 ? text : "[waymark: the rest of this output isn't kept]");
  });
  return {
    write(chunk) {
      void log.write(chunk);
      return shown.write(chunk);
    },
    end() {
      log.end();
      shown.end();
    },
  };
}
