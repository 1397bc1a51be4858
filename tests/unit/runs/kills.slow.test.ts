// Tests that no acknowledged step runs again, however often a run's process is killed (SIGKILL).
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { expect, it } from "vitest";
import { noStrace } from "../../crash/crash-process.js";
import { newSchema } from "../../support/postgres.js";
import { randomFrom, SEED } from "../../support/seeded.js";
import { tempFolder } from "../../support/temp-folder.js";

const PROGRAM = fileURLToPath(new URL("../../fixtures/run-until-killed.mjs", import.meta.url));
/**
 * How many runs on each storage, half of them in each of the two ways. `WAYMARK_RUN_KILLS=1000` sets their total by
 * hand.
 */
const KILLS = Math.ceil(Number(process.env["WAYMARK_RUN_KILLS"] ?? 100) / 8);
const RESULT = [0, 0, 1, 2, "retried", "a,b,c", "last", 1, 0, 1, 2, "retried", "a,b,c", "last"];
const STORAGES = ["files", "tasks", "sqlite", "postgres"] as const;

/** An undisturbed run has some 1,500 moments on files, and some hundreds on databases. */
const MOST_MOMENTS = { files: 1500, tasks: 1500, sqlite: 450, postgres: 150 };
/** The system calls that change files or send something, and roughly how often an undisturbed run makes each. */
const SYSTEM_CALLS = {
  files: { write: 200, fsync: 113, rename: 66, unlink: 57, mkdir: 6 },
  tasks: { write: 200, fsync: 113, rename: 66, unlink: 57, mkdir: 6 },
  sqlite: { write: 88, pwrite64: 470, fsync: 51 },
  postgres: { write: 200 },
};

type Storage = (typeof STORAGES)[number];

it.each(STORAGES)("a run on %s whose process is killed at random moments runs no acknowledged step again", (kind) =>
  killedAgainAndAgain(kind, () => ({ moment: between(1, MOST_MOMENTS[kind]), command: [] })),
);

it.skipIf(noStrace !== undefined).each(STORAGES)(
  `a run on %s whose process is killed at system calls runs no acknowledged step again${noStrace ? ` (skipped: ${noStrace})` : ""}`,
  (kind) =>
    killedAgainAndAgain(kind, () => {
      const calls = Object.entries(SYSTEM_CALLS[kind]);
      const [call, most] = calls[between(0, calls.length - 1)]!;
      const injection = `inject=${call}:signal=KILL:when=${between(1, most)}`;
      return { moment: 0, command: ["strace", "-f", "-qq", "-o", "/dev/null", "-e", `trace=${call}`, "-e", injection] };
    }),
);

interface Kill {
  /** The moment at which the program kills itself; 0 for none. */
  readonly moment: number;
  /** Runs the program. */
  readonly command: readonly string[];
}

async function killedAgainAndAgain(kind: Storage, nextKill: () => Kill): Promise<void> {
  const folder = await tempFolder();
  let kills = 0;
  for (let run = 0; kills < KILLS; run++) {
    const place = kind === "postgres" ? JSON.stringify(await newSchema()) : join(folder, `store ${run}`);
    const ledger = join(folder, `ledger ${run}`);
    for (;;) {
      const { moment, command } = nextKill();
      const [file = "", ...args] = [...command, process.execPath, PROGRAM, kind, place, ledger, String(moment)];
      // strace counts the calls of each thread.
      const child = await execa(file, args, { reject: false, env: { UV_THREADPOOL_SIZE: "1" } });
      if (child.signal === "SIGKILL") {
        kills += 1;
        continue;
      }
      // On a busy machine a process may stand still for longer than its short lease on the server.
      if (kind === "postgres" && child.stderr.includes("LEASE_LOST")) continue;
      expect(child.stderr).toBe("");
      expect(JSON.parse(child.stdout)).toEqual(RESULT);
      break;
    }
    expect(repeatedIn(await readFile(ledger, "utf8")), `killed at random; store ${run}`).toEqual([]);
  }
}

/** Returns the steps that began again after they were acknowledged. A retried step may begin twice before. */
function repeatedIn(ledger: string): string[] {
  const acknowledged = new Set<string>();
  return ledger.split("\n").flatMap((line) => {
    const [what, ...id] = line.split(" ");
    const step = id.join(" ");
    if (what === "begin") return acknowledged.has(step) ? [step] : [];
    acknowledged.add(step);
    return [];
  });
}

const random = randomFrom(SEED);

function between(least: number, most: number): number {
  return least + Math.floor(random() * (most - least + 1));
}
