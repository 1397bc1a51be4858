import { CommanderError } from "@commander-js/extra-typings";
import { CheckpointError, KeyUnavailableError } from "waymark";
import { Cli, type Streams } from "./cli.js";
import { CommandError, ExitCode, toExitCode } from "./exit-code.js";
import { printable } from "./printable.js";
import { makeProgram } from "./program.js";

/**
 * Runs one command to its end.
 *
 * @param args - The words after `waymark`.
 * @returns The exit code. Errors are printed, never thrown.
 */
export async function run(args: readonly string[], streams: Streams): Promise<ExitCode> {
  const { command, cli } = makeProgram(streams, (current) => new Cli(streams, args, () => current.opts()));
  try {
    await command.parseAsync(args, { from: "user" });
    await cli.output.flush();
  } catch (error) {
    // Text printed before the error is part of the answer. If flushing also fails, the first error is reported.
    await cli.output.flush().catch(() => undefined);
    cli.exitCode = await report(error, cli, command.opts().verbose === true);
  }
  await cli.errors.flush();
  await cli.end();
  return cli.exitCode;
}

async function report(error: unknown, { errors }: Cli, isVerbose: boolean): Promise<ExitCode> {
  // Commander has already printed its errors.
  if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.done : ExitCode.usage;
  const origin = error instanceof CommandError ? error.cause : error;
  const code = origin instanceof CheckpointError ? ` [${origin.code}]` : "";
  await errors.line(`${errors.colors.red("waymark:")} ${printable(readMessage(error))}${code}${formatReason(origin)}`);
  if (isVerbose) for (const line of listCauses(error)) await errors.line(line);
  return toExitCode(error);
}

/** Returns why the configuration's own function returned no key. The error's message doesn't contain the reason. */
function formatReason(error: unknown): string {
  if (!(error instanceof KeyUnavailableError) || error.cause === undefined) return "";
  return `: ${printable(readMessage(error.cause))}`;
}

/** Returns the message on one line, even if the error lists several things on separate lines. */
function readMessage(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/\n {2}/g, " ");
}

/** Returns the stack of the error and of each cause. */
function listCauses(error: unknown): string[] {
  const lines: string[] = [];
  const seen = new Set<unknown>();
  for (let current = error; current instanceof Error && !seen.has(current); current = current.cause) {
    seen.add(current);
    const code = "code" in current ? ` [${String(current.code)}]` : "";
    if (current !== error) lines.push(`  caused by ${printable(`${current.name}${code}: ${current.message}`)}`);
    const frames = (current.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
    lines.push(...frames.slice(0, 4).map((line) => `    ${printable(line.trim())}`));
  }
  return lines;
}
