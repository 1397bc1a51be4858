import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { onTestFinished } from "vitest";
import { type CheckpointData, PrpCheckpointManager } from "waymark/prp";
import { type PrpDocument, PrpExecutor, type PrpExecutorOptions } from "waymark-runners/prp";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";
import { WatchedSink } from "../processes/processes.js";

const EXECUTE = new URL("../../fixtures/prp/execute.mjs", import.meta.url).pathname;

/** Notes that it runs. If the file `block` names it, prints that and never ends. If there is a file `fail-…`, fails. */
const WORK = `#!/bin/sh
echo "$1" >> log
if [ "$(cat block 2>/dev/null)" = "$1" ]; then
  echo "blocked: $1 by $$"
  exec sleep 1000
fi
if [ -e "fail-$1" ]; then
  echo "$1 is broken" >&2
  exit 1
fi
echo "$1 is fine"
`;

/** Works on the PRP at first; later fixes the broken gates. */
const CODER = `#!/bin/sh
case "$(cat)" in
*"This is fix attempt"*) ./work fix && rm -f fail-gate-* ;;
*) ./work code ;;
esac
echo '{"result":"success","message":"done","artifacts":["log"]}'
`;

export const KEEP_ALL = { maxCheckpoints: 100 };

/**
 * A session's folder with a PRP of four gates, a coder that is a command, and a log of what has run.
 */
export class Session {
  readonly path: string;
  readonly prpPath: string;
  readonly taskId = "P1.M1.T1.S1";

  private constructor(path: string) {
    this.path = path;
    this.prpPath = join(path, "PRP.md");
  }

  /**
   * A session in a git repository that ignores the log and the files by which tests steer gates, so these don't count as
   * changes. Only slow tests may need git.
   */
  static async createWithGit(): Promise<Session> {
    const session = await Session.create();
    await session.git("init", "--quiet");
    await session.write(".git/info/exclude", "/log\n/block\n/block-all\n/fail-*\n/made\n");
    return session;
  }

  static async create(): Promise<Session> {
    const session = new Session(await tempFolder());
    await writeFile(join(session.path, "work"), WORK, { mode: 0o755 });
    await writeFile(join(session.path, "coder"), CODER, { mode: 0o755 });
    await session.writePrp();
    return session;
  }

  async git(...args: string[]): Promise<string> {
    const identity = ["-c", "user.name=T", "-c", "user.email=t@example.com"];
    return (await execa("git", [...identity, ...args], { cwd: this.path })).stdout;
  }

  /** A PRP with another goal. */
  async writePrp(goal = "Make it work"): Promise<void> {
    const gates = [1, 2, 3, 4].map((n) => `### Level ${n}: Gate ${n}\n\n\`\`\`sh\n./work gate-${n}\n\`\`\`\n`);
    await writeFile(
      this.prpPath,
      `# ${goal}\n\n**PRP ID**: ${this.taskId}\n\n## Validation Loop\n\n${gates.join("\n")}`,
    );
  }

  async write(name: string, text = ""): Promise<void> {
    await writeFile(join(this.path, name), text);
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.path, name), { force: true });
  }

  /** The names of everything that has run, in order. */
  async log(): Promise<string[]> {
    const text = await readFile(join(this.path, "log"), "utf8").catch(() => "");
    return text.split("\n").slice(0, -1);
  }

  executor(options: Partial<PrpExecutorOptions> = {}): PrpExecutor {
    const executor = new PrpExecutor(this.path, {
      coder: "./coder",
      checkpoints: KEEP_ALL,
      output: () => {},
      logger: recordingLogger(),
      ...options,
    });
    onTestFinished(() => executor.close());
    return executor;
  }

  /** Executes the PRP in a new process. */
  spawn(options: object = {}) {
    const args = [
      EXECUTE,
      this.path,
      this.prpPath,
      JSON.stringify({ coder: "./coder", checkpoints: KEEP_ALL, ...options }),
    ];
    return execa(process.execPath, args, { reject: false });
  }

  async checkpoints(taskId: string = this.taskId): Promise<CheckpointData[]> {
    const manager = new PrpCheckpointManager(this.path);
    try {
      return await manager.listCheckpoints(taskId);
    } finally {
      await manager.close();
    }
  }

  async stages(): Promise<string[]> {
    return (await this.checkpoints()).map(({ state }) => state.stage);
  }

  async latest(): Promise<CheckpointData> {
    const latest = (await this.checkpoints()).at(-1);
    if (latest === undefined) throw new Error("There is no checkpoint");
    return latest;
  }
}

/** Waits until the work that `block` names runs in `run`. Returns its pid. */
export async function blocked(run: ReturnType<Session["spawn"]>): Promise<string> {
  const output = new WatchedSink();
  run.stdout.on("data", (chunk: Buffer) => output.write(chunk));
  const ended = run.then((result) => {
    throw new Error(`The run ended before anything was blocked: ${JSON.stringify(result)}`);
  });
  return Promise.race([output.until(/^blocked: .* by (\d+)$/m), ended]);
}

/** A PRP as an object, with these commands as its gates from level 1. */
export function documentOf(...commands: (string | null)[]): PrpDocument {
  return {
    taskId: "T",
    validationGates: commands.map((command, i) => ({
      level: (i + 1) as 1 | 2 | 3 | 4,
      description: `Gate ${i + 1}`,
      command,
    })),
  };
}

/** A coder that always succeeds, and counts its calls. */
export function countingCoder(): (() => { result: "success"; message: string }) & { calls: number } {
  const coder = () => {
    coder.calls += 1;
    return { result: "success" as const, message: "done" };
  };
  coder.calls = 0;
  return coder;
}
