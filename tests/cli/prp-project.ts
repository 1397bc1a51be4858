import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { tempFolder } from "../support/temp-folder.js";
import { start, waymark } from "./waymark.js";

/** Notes that it was asked, and makes the file that the first gate looks for. */
export const AGENT = `#!/bin/sh
cat > prompt
echo coder >> log
touch made
echo '{"result":"success","message":"done"}'
`;

/** Makes a git repository with a PRP of two gates. The second gate waits for a file `go`, which git ignores. */
export async function project() {
  const cwd = await tempFolder();
  execFileSync("git", ["init", "--quiet"], { cwd });
  writeFileSync(join(cwd, ".git", "info", "exclude"), "/log\n/go\n");
  const gates = [
    "### Level 1: Made\n\n```sh\necho gate-1 >> log; test -e made\n```",
    "### Level 2: Slow\n\n```sh\necho gate-2 >> log; test -e go || { echo waiting; exec sleep 600; }\n```",
  ];
  writeFileSync(join(cwd, "PRP.md"), `# Make it\n\n**PRP ID**: P1.M1\n\n## Validation Loop\n\n${gates.join("\n\n")}\n`);
  writeFileSync(join(cwd, "agent"), AGENT, { mode: 0o755 });
  const run = ["prp", "run", "PRP.md", "--coder", "./agent", "--session", "session"];
  return {
    cwd,
    run: (...args: string[]) => waymark({ cwd }, [...run, ...args]),
    status: (...args: string[]) => waymark({ cwd }, ["prp", "status", "--session", "session", ...args]),
    log: () => readFileSync(join(cwd, "log"), "utf8").trim().split("\n"),
    write: (name: string) => writeFileSync(join(cwd, name), ""),
    /** Runs the PRP with a coder that gives up, which leaves an unfinished task. */
    async unfinished(): Promise<void> {
      const coder = `echo '{"result":"error","message":"no idea"}'`;
      await waymark({ cwd }, ["prp", "run", "PRP.md", "--coder", coder, "--session", "session"]);
    },
    /** Starts the command, and ends it by a signal in the middle of gate 2. `said` collects stderr. */
    async interrupted(signal: NodeJS.Signals, said: string[] = [], ...args: string[]): Promise<unknown[]> {
      const child = start({ cwd }, [...run, ...args], { stdio: ["ignore", "pipe", "pipe"] });
      const ended = once(child, "exit");
      child.stderr?.setEncoding("utf8").on("data", (text: string) => said.push(text));
      if (child.stdout === null) throw new Error("It has a stdout.");
      for await (const line of createInterface({ input: child.stdout })) {
        if (line !== "waiting" && line !== "stopping") continue;
        child.kill(signal);
        // An orphan of the command may hold the pipe open.
        if (signal === "SIGKILL") break;
      }
      return ended;
    },
  };
}
