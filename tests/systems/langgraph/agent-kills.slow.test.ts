import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MemorySaver } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { tenth } from "../../crash/extent.js";
import { converse, ledgerAgent } from "../../fixtures/langgraph/ledger-agent.mjs";
import { bundled } from "../../support/bundled.mjs";
import { momentOf } from "../../support/moments.js";
import { collect } from "../../support/postgres.js";
import { tempFolder } from "../../support/temp-folder.js";
import { Lives } from "./lives.js";
import { newPlace, saverOn, threadOf } from "./storages.js";

/** Bundled, because LangGraph takes long to load. */
const PROGRAM = fileURLToPath(await bundled("tests/fixtures/langgraph/ledger-agent-until-killed.mjs"));
const KILLS = tenth === undefined ? 50 : 10;
const TURNS = 8;
/** A turn prints nine lines, so that a kill falls anywhere in it. */
const LONGEST_LIFE = 12;
/** Some seventy processes start one after another. */
const LONG = { timeout: 900_000 };

describe("an agent of createAgent whose tools write a ledger, killed 50 times at random moments", () => {
  it.each(["sqlite", "postgres"] as const)(
    "on %s loses nothing and runs no acknowledged tool again",
    LONG,
    async (kind) => {
      const place = await newPlace(kind);
      const folder = await tempFolder();
      const undisturbed = await converse(
        ledgerAgent(new MemorySaver(), () => {}),
        threadOf("t"),
        TURNS,
      );
      let kills = 0;
      let acknowledged = 0;
      let emptyNext = 0;
      for (let n = 1; kills < KILLS; n++) {
        const ledger = join(folder, `ledger-${n}`);
        const run = new Run(ledger);
        const lives = new Lives([PROGRAM, place.url, `t${n}`, String(TURNS), ledger]);
        for (let life = 1; run.end === undefined; life++) {
          const { lines, isKilled } = await lives.next(momentOf(1000 * n + life, LONGEST_LIFE));
          if (isKilled) kills += 1;
          run.read(lines, `life ${life} of thread ${n}`);
        }
        expect(run.end).toEqual(undisturbed);
        const saver = saverOn(place);
        const ids = (await collect(saver.list(threadOf(`t${n}`)))).map(({ checkpoint }) => checkpoint.id);
        expect(ids).toEqual(expect.arrayContaining([...run.stored]));
        expect(await saver.threads({ prefix: `t${n}` })).toMatchObject([{ status: "completed" }]);
        expect(run.ran.size).toBe(2 * TURNS);
        acknowledged += run.acknowledged.size;
        emptyNext += run.emptyNext;
      }
      const { findings } = await new CheckpointManager({ storage: place.open() }).maintenance.verify();
      expect(findings.filter((finding) => finding.kind !== "leftover")).toEqual([]);
      process.stdout.write(
        `${kind}: ${kills} kills, ${acknowledged} tools acknowledged, ${emptyNext} times next was empty\n`,
      );
    },
  );
});

describe("a thread whose process was killed once all results of a step were stored", () => {
  it.each(["sqlite", "postgres"] as const)("on %s has an empty next, tasks left, and isn't completed", async (kind) => {
    const place = await newPlace(kind);
    const ledger = join(await tempFolder(), "ledger");
    const lives = new Lives([PROGRAM, place.url, "t", "1", ledger, "2"]);
    expect(await lives.next(Number.POSITIVE_INFINITY)).toMatchObject({ isKilled: true });

    const saver = saverOn(place);
    const agent = ledgerAgent(saver, () => {});
    const { next, tasks } = await agent.getState(threadOf("t"));
    expect([next, tasks.length]).toEqual([[], 2]);
    expect(await saver.threads()).toMatchObject([{ id: "t", status: "running" }]);

    const undisturbed = await converse(
      ledgerAgent(new MemorySaver(), () => {}),
      threadOf("t"),
      1,
    );
    expect(await converse(agent, threadOf("t"), 1)).toEqual(undisturbed);
    expect(await agent.getState(threadOf("t"))).toMatchObject({ next: [], tasks: [] });
    expect(await saver.threads()).toMatchObject([{ id: "t", status: "completed" }]);
    expect(readFileSync(ledger, "utf8").split("\n").sort()).toEqual(["", "call-1-left", "call-1-right"]);
  });
});

/** The printed lines of all lives of a thread, and their ledger. */
class Run {
  /** Tool calls whose result and checkpoint were acknowledged. */
  readonly acknowledged = new Set<string>();
  /** Checkpoints that were acknowledged. */
  readonly stored = new Set<string>();
  /** Tool calls in the ledger. */
  readonly ran = new Set<string>();
  emptyNext = 0;
  end: unknown;
  readonly #ledger: string;
  #read = 0;

  constructor(ledger: string) {
    this.#ledger = ledger;
  }

  read(lines: readonly string[], life: string): void {
    const entries = existsSync(this.#ledger) ? readFileSync(this.#ledger, "utf8").trimEnd().split("\n") : [];
    const added = entries.slice(this.#read);
    this.#read = entries.length;
    expect(new Set(added).size, `${life} runs a tool twice`).toBe(added.length);
    for (const call of added) this.ran.add(call);
    for (const call of added) expect(this.acknowledged, `${life} runs ${call} again`).not.toContain(call);
    for (const line of lines) {
      const [what, first = "", call = ""] = line.split(" ");
      if (what === "put") this.stored.add(first);
      else if (what === "wrote") {
        expect(this.stored).toContain(first);
        this.acknowledged.add(call);
      } else if (what === "empty-next") this.emptyNext += 1;
      else if (what === "end") this.end = JSON.parse(line.slice("end ".length));
      // A server may still be running a killed client's last statement.
      else if (what === "error") expect(first, life).toBe("CHECKPOINT_CONFLICT");
      else expect(what, life).toBe("ran");
    }
    for (const call of this.acknowledged) expect(this.ran, life).toContain(call);
  }
}
