// Each shell loads its script and completes lines with it. A missing shell is skipped, with the reason in the name.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { cleanEnv, hasScript, newPlace, WAYMARK } from "./waymark.js";

/**
 * The text typed before Tab, and the line after it. A slash at its end is not compared, because zsh removes it at
 * Enter.
 */
const LINES = [
  ["waymark li", "waymark list"],
  ["waymark prp r", "waymark prp run"],
  ["waymark prp check --sec", "waymark prp check --section"],
  ["waymark prp run --ses", "waymark prp run --session"],
  ["waymark prp run --session ses", "waymark prp run --session sessions"],
  ["waymark list --in", "waymark list --incomplete"],
  ["waymark list bu", "waymark list build-1"],
  ["waymark --storage sqlite:checkpoints.db list bu", "waymark --storage sqlite:checkpoints.db list build-1"],
  ["waymark list team:", "waymark list team:x@y"],
  ["waymark list team:x@", "waymark list team:x@y"],
  ["waymark show build-1 @l", "waymark show build-1 @latest"],
  ["waymark completion z", "waymark completion zsh"],
  ["waymark tasks --storage sq", "waymark tasks --storage sqlite:"],
  ["waymark tasks --storage sqlite:ch", "waymark tasks --storage sqlite:checkpoints.db"],
  ["waymark help prp ru", "waymark help prp run"],
] as const;

/** A folder with a storage and, on the PATH, a `waymark` that on a terminal only prints its arguments. */
async function project() {
  const { cwd, manager, place } = await newPlace();
  for (const id of ["build-1", "team:x@y"]) await manager.save(id, 1);
  await manager.close();
  // Names that a shell would offer if it didn't ask the script.
  for (const name of ["list-of-files", "runs", "bundle", "zipped"]) writeFileSync(join(cwd, name), "");
  mkdirSync(join(cwd, "sessions"));
  mkdirSync(join(cwd, "bin"));
  const real = `exec "${process.execPath}" "${WAYMARK}" "$@"`;
  const program = `#!/bin/sh\nif [ -t 1 ]; then echo "<waymark $*>"; else ${real}; fi\n`;
  writeFileSync(join(cwd, "bin", "waymark"), program, { mode: 0o755 });
  // The shell runs without the user's configuration and without colours.
  const env = { HOME: cwd, XDG_CONFIG_HOME: cwd, TERM: "dumb", PATH: `${join(cwd, "bin")}:${process.env["PATH"]}` };
  return { cwd, env: cleanEnv({ ...place.env, ...env }) };
}

const PROMPT = "next>";

/** Types each line, Tab and Enter in a shell on a terminal. Returns the lines that are run. */
async function runAfterTab(shell: string, load: string): Promise<string[]> {
  const { cwd, env } = await project();
  const command = `PS1="${PROMPT}" ${shell}`;
  const child = spawn("script", ["-qefc", command, "/dev/null"], { cwd, env, stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void child.kill());
  const typed = [load, ...LINES.map(([line]) => `${line}\t`), "exit"];
  let screen = "";
  let prompts = 0;
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    screen += text;
    for (const seen = screen.split(PROMPT).length - 1; prompts < seen; prompts++) {
      if (prompts < typed.length) child.stdin.write(`${typed[prompts]}\r`);
    }
  });
  await once(child, "close");
  return [...screen.matchAll(/<(waymark [^>]*?)\/?>/g)].map(([, line = ""]) => line);
}

function whyNot(shell: string): string {
  if (spawnSync(shell, ["--version"]).error !== undefined) return `${shell} is not installed`;
  return shell === "fish" || hasScript ? "" : "there is no `script` of util-linux";
}

for (const [shell, command, load] of [
  ["bash", "bash --noprofile --norc -i", 'eval "$(waymark completion bash)"'],
  ["zsh", "zsh -f -i", 'autoload -Uz compinit; compinit -u -D; eval "$(waymark completion zsh)"'],
] as const) {
  const reason = whyNot(shell);
  it.skipIf(reason !== "")(`Tab completes a line in ${shell}${reason && ` (skipped: ${reason})`}`, async () => {
    expect(await runAfterTab(command, load)).toEqual(LINES.map(([, completed]) => completed));
  });
}

const noFish = whyNot("fish");
it.skipIf(noFish !== "")(`fish offers the completions of a line${noFish && ` (skipped: ${noFish})`}`, async () => {
  const { cwd, env } = await project();
  const load = "waymark completion fish | source";
  const ask = (line: string) =>
    execFileSync("fish", ["--no-config", "-c", `${load}; complete -C $argv`, line], { cwd, env, encoding: "utf8" });
  for (const [line, completed] of LINES) {
    const word = completed.slice(line.lastIndexOf(" ") + 1);
    expect([line, ask(line)]).toEqual([line, expect.stringMatching(new RegExp(`^${word}/?(\t.*)?\n$`))]);
  }
  expect(ask("waymark prp ").replace(/\t.*/g, "").trimEnd().split("\n").sort()).toEqual([
    "check",
    "help",
    "run",
    "status",
  ]);
});
