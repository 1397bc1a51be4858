// The example: a process executes a PRP, is killed in the middle of a gate, and the same command resumes it.
import { constants } from "node:os";
import { demonstrate } from "./demonstration.js";
import { showVerdict } from "./narration.js";
import { createRunFolder, RUNNER } from "./run-folder.js";
import { heading, line, shown } from "./screen.js";

const interruption = new AbortController();
let interruptedBy: "SIGINT" | "SIGTERM" | "SIGHUP" | undefined;
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(name, () => {
    // Under npm, Ctrl-C arrives twice: from the terminal and from npm. The second signal is ignored.
    if (interruptedBy !== undefined) return;
    // The terminal has written ^C into the current line.
    if (process.stdout.isTTY) line();
    interruptedBy = name;
    interruption.abort();
  });
}

const folder = await createRunFolder();
try {
  const problems = await demonstrate(folder, interruption.signal);
  showVerdict(problems, folder);
  process.exitCode = problems.length === 0 ? 0 : 1;
} catch (error) {
  if (interruptedBy === undefined) throw error;
  heading(`Stopped by ${interruptedBy}. No finished work is lost. To continue:`);
  line(`node ${shown(RUNNER)} ${shown(folder.path)}`);
  process.exitCode = 128 + constants.signals[interruptedBy];
}
