import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { tempFolder } from "../support/temp-folder.js";
import { start, waymark } from "./waymark.js";

interface Step {
  readonly id: string;
  readonly command: string;
  readonly depends_on?: readonly string[];
}

/** A project with a plan for the feature F01. */
export async function project(workstreams: readonly Step[]) {
  const cwd = await tempFolder();
  mkdirSync(join(cwd, ".sdp", "plans"), { recursive: true });
  writeFileSync(join(cwd, ".sdp", "plans", "F01.json"), JSON.stringify({ workstreams }));
  const checkpoint = join(cwd, ".sdp", "checkpoints", "F01.json");
  return {
    cwd,
    oneshot: (...args: string[]) => waymark({ cwd }, ["oneshot", ...args]),
    saved: () => JSON.parse(readFileSync(checkpoint, "utf8")) as Record<string, unknown>,
    /** The names in the checkpoints' folder. */
    left: () => readdirSync(join(cwd, ".sdp", "checkpoints")).filter((name) => !name.startsWith(".")),
  };
}

/** Starts the command, and returns its lines of stdout while it runs. */
export function startOneshot(cwd: string, ...args: string[]) {
  const child = start({ cwd }, ["oneshot", ...args], { stdio: ["ignore", "pipe", "pipe"] });
  if (child.stdout === null) throw new Error("It has a stdout.");
  const said: string[] = [];
  child.stderr?.setEncoding("utf8").on("data", (text: string) => said.push(text));
  return {
    child,
    ended: once(child, "close"),
    lines: createInterface({ input: child.stdout }),
    /** Everything on stderr so far. */
    stderr: () => said.join(""),
  };
}
