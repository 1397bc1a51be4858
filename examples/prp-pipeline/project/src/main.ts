#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { clock, type Entry, LogError, parseLog } from "./log.js";

const USAGE = `Usage: hours <command> <log>

  list <log>      every entry, one per line
`;

/** Returns the exit code, which callers may rely on: 0 for success, 1 for a bad log, 2 for wrong usage. */
function main(args: readonly string[]): number {
  const [command, path, ...rest] = args;
  if (command === "--help") return print(USAGE);
  if (command === "--version") return print("hours 1.3.0\n");
  if (command === undefined || path === undefined) return misuse("a command and a log are needed");

  switch (command) {
    case "list":
      if (rest.length > 0) return misuse(`unexpected ${rest.join(" ")}`);
      return withLog(path, (entries) => print(entries.map(listed).join("")));
    default:
      return misuse(`there is no command ${command}`);
  }
}

function listed({ day, start, end, project, note }: Entry): string {
  return `${day}  ${clock(start).padStart(5)} to ${clock(end).padStart(5)}  ${project.padEnd(12)}  ${note}`.trimEnd() + "\n";
}

function withLog(path: string, use: (entries: Entry[]) => number): number {
  try {
    return use(parseLog(readFileSync(path, "utf8")));
  } catch (error) {
    if (error instanceof LogError) return fail(`${path}:${error.message}`);
    if (error instanceof Error && "code" in error) return fail(`can't read ${path} (${error.code})`);
    throw error;
  }
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

function fail(message: string): number {
  process.stderr.write(`hours: ${message}\n`);
  return 1;
}

function misuse(message: string): number {
  process.stderr.write(`hours: ${message}\n\n${USAGE}`);
  return 2;
}

process.exitCode = main(process.argv.slice(2));
