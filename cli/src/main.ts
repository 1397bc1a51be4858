import { CommanderError } from "@commander-js/extra-typings";
import { CheckpointError, KeyUnavailableError } from "waymark";
import { Cli } from "./cli.js";
import { CommandError, ExitCode, exitCodeOf } from "./exit-code.js";
import { printable } from "./printable.js";
import { makeProgram } from "./program.js";

const program = makeProgram((current) => new Cli(() => current.opts()));
const { cli } = program;

try {
  await program.command.parseAsync();
  await cli.output.flush();
} catch (error) {
  await fail(error);
}
await cli.errors.flush();
process.exitCode = cli.exitCode;

async function fail(error: unknown): Promise<void> {
  // What was shown before the error is part of the answer; if that fails too, the first error counts.
  await cli.output.flush().catch(() => undefined);
  if (error instanceof CommanderError) {
    cli.exitCode = error.exitCode === 0 ? ExitCode.done : ExitCode.usage;
    return;
  }
  cli.exitCode = exitCodeOf(error);
  const origin = error instanceof CommandError ? error.cause : error;
  const code = origin instanceof CheckpointError ? ` [${origin.code}]` : "";
  await cli.errors.line(
    `${cli.errors.colors.red("waymark:")} ${printable(messageOf(error))}${code}${reasonOf(origin)}`,
  );
  if (program.command.opts().verbose) for (const line of causesOf(error)) await cli.errors.line(line);
}

/** Why the configuration's own function gave no key: the error itself can't say it, and nothing else shows it. */
function reasonOf(error: unknown): string {
  if (!(error instanceof KeyUnavailableError) || error.cause === undefined) return "";
  return `: ${printable(messageOf(error.cause))}`;
}

/** On one line, where an error lists several things on lines of their own. */
function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/\n {2}/g, " ");
}

/** The stack, and what lies beneath it, each with its own. */
function causesOf(error: unknown): string[] {
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
