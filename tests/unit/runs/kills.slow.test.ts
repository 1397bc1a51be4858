// A run whose process is killed with kill -9, again and again: what was acknowledged isn't run again.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { expect, it } from "vitest";
import { newSchema } from "../../support/postgres.js";
import { tempFolder } from "../../support/temp-folder.js";

const PROGRAM = fileURLToPath(new URL("../../fixtures/run-until-killed.mjs", import.meta.url));
/** By hand, `WAYMARK_RUN_KILLS=1000` makes as many on all storages together. */
const KILLS = Math.ceil(Number(process.env["WAYMARK_RUN_KILLS"] ?? 100) / 4);
const RESULT = [0, 0, 1, 2, "retried", "a,b,c", "last", 1, 0, 1, 2, "retried", "a,b,c", "last"];
/** In an undisturbed run there are some 1,500 moments on files, and some hundreds on databases. */
const MOST_MOMENTS: Record<string, number> = { files: 1500, tasks: 1500, sqlite: 450, postgres: 150 };

/** Steps that began after they were acknowledged. A retried one may begin twice before. */
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

it.each(Object.keys(MOST_MOMENTS))(
  "a run on %s whose process is killed at random moments runs no acknowledged step again",
  async (kind) => {
    const folder = await tempFolder();
    let kills = 0;
    for (let run = 0; kills < KILLS; run++) {
      const place = kind === "postgres" ? JSON.stringify(await newSchema()) : join(folder, `store ${run}`);
      const ledger = join(folder, `ledger ${run}`);
      for (;;) {
        const moment = 1 + Math.floor(Math.random() * (MOST_MOMENTS[kind] ?? 1));
        const child = await execa(process.execPath, [PROGRAM, kind, place, ledger, String(moment)], { reject: false });
        if (child.signal === "SIGKILL") {
          kills += 1;
          continue;
        }
        expect(child.stderr).toBe("");
        expect(JSON.parse(child.stdout)).toEqual(RESULT);
        break;
      }
      expect(repeatedIn(await readFile(ledger, "utf8")), `killed at random; store ${run}`).toEqual([]);
    }
  },
);
