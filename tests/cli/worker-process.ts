// A worker of the command, as a process.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { cleanEnv, newPlace, start } from "./waymark.js";

/** Opens a place, and closes it after the test. */
export async function placeOf(url?: string) {
  const place = await newPlace(url);
  onTestFinished(() => place.manager.close());
  return place;
}

export type Place = Awaited<ReturnType<typeof placeOf>>;

/** A worker as a process, and its lines. */
export function startWorker(place: Place, code: string, args: readonly string[] = [], name = "worker.mjs") {
  writeFileSync(join(place.cwd, name), code);
  const child = start({ ...place.place, env: cleanEnv(place.place.env) }, ["work", "--module", name, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  if (child.stdout === null || child.stderr === null) throw new Error("They are pipes.");
  return {
    child,
    lines: createInterface(child.stdout),
    /** Resolves to the first matching line of standard output or standard error. Call it before the line may come. */
    line: (wanted: RegExp) => lineOf(child, wanted),
    ended: once(child, "exit"),
  };
}

function lineOf({ stdout, stderr }: ChildProcess, wanted: RegExp): Promise<string> {
  return new Promise((resolve) => {
    for (const input of [stdout, stderr]) {
      if (input) createInterface(input).on("line", (line) => wanted.test(line) && resolve(line));
    }
  });
}

export const WORKER = `export default {
  prefix: "w/",
  concurrency: 2,
  async run(run) {
    await run.step("plan", () => 1);
    if (run.input === "fails") await run.step("build", () => Promise.reject(new Error("no room")));
    return (await run.waitFor("approve")).value;
  },
};`;
