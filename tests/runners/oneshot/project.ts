import { open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { onTestFinished } from "vitest";
import { CheckpointRepository } from "waymark/oneshot";
import {
  type OneshotEvent,
  type OneshotOptions,
  type OneshotPlan,
  type OneshotResult,
  runOneshot,
  type Workstream,
  type WorkstreamFolder,
} from "waymark-runners/oneshot";
import { tempFolder } from "../../support/temp-folder.js";
import { visibleIn } from "../../support/visible-files.js";
import { WatchedSink } from "../processes/processes.js";

const RUN = new URL("../../fixtures/oneshot/run.mjs", import.meta.url).pathname;

/** A project's folder, in which workstreams note in `log` that they run. */
export class Project {
  readonly path: string;
  readonly repository: CheckpointRepository;

  private constructor(path: string) {
    this.path = path;
    this.repository = new CheckpointRepository(path);
  }

  static async create(): Promise<Project> {
    return new Project(await tempFolder());
  }

  async run(plan: OneshotPlan | WorkstreamFolder | string, options: Partial<OneshotOptions> = {}) {
    const events: OneshotEvent[] = [];
    const onEvent = (event: OneshotEvent) => {
      events.push(event);
      options.onEvent?.(event);
    };
    const running = runOneshot("F01", { baseDir: this.path, plan, ...options, onEvent });
    const result = await running;
    return { result, events };
  }

  /** Runs the feature in a new process. */
  spawn(plan: OneshotPlan | WorkstreamFolder | string | undefined, options: object = {}) {
    const args = [RUN, this.path, "F01", JSON.stringify({ plan, ...options })];
    const run = execa(process.execPath, args, { reject: false });
    const output = new WatchedSink();
    run.stdout.on("data", (chunk: Buffer) => output.write(chunk));
    return { run, output };
  }

  async write(name: string, text = ""): Promise<string> {
    const path = join(this.path, name);
    await writeFile(path, text);
    return path;
  }

  /**
   * Makes a named pipe. A command that does `read go < name` waits at it until one more may pass.
   *
   * @returns A function that lets one pass, or that many.
   */
  async gate(name: string): Promise<(count?: number) => Promise<void>> {
    const path = join(this.path, name);
    await execa("mkfifo", [path]);
    // If the pipe is also open here, nobody waits for the other end to open.
    const pipe = await open(path, "r+");
    onTestFinished(() => pipe.close());
    return async (count = 1) => void (await pipe.write("\n".repeat(count)));
  }

  /** Returns the workstreams that have run, in order. */
  async log(): Promise<string[]> {
    const text = await readFile(join(this.path, "log"), "utf8").catch(() => "");
    return text.split("\n").slice(0, -1);
  }

  /** The names in the checkpoints' folder. */
  async files(): Promise<string[]> {
    return visibleIn(this.repository.checkpointDir);
  }

  /** The feature's file as it is on disk. */
  async file(): Promise<Record<string, unknown>> {
    return JSON.parse(await readFile(join(this.repository.checkpointDir, "F01.json"), "utf8"));
  }
}

/** A plan of workstreams that note their ids; `[id, ...ids]` depends on those ids. */
export function chain(...entries: readonly (string | readonly [string, ...string[]])[]): OneshotPlan {
  return {
    workstreams: entries.map((entry) => {
      const [id, ...dependsOn] = typeof entry === "string" ? [entry] : entry;
      return workstream(id, "", dependsOn);
    }),
  };
}

/** A workstream that notes its id, then does `more`. */
export function workstream(id: string, more = "", dependsOn: readonly string[] = []): Workstream {
  return { id, command: `echo ${id} >> log\n${more}`, dependsOn };
}

/** The last output of a spawned run: its result, or its error. */
export function outcomeOf(stdout: string): { result?: OneshotResult; error?: string; message?: string } {
  return JSON.parse(stdout.trimEnd().split("\n").at(-1)!);
}
