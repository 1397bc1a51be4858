import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { bundled } from "../../support/bundled.mjs";
import { momentOf } from "../../support/moments.js";
import { Lives } from "./lives.js";
import { newPlace } from "./storages.js";

/** Bundled, because LangGraph takes long to load. */
const PROGRAM = fileURLToPath(await bundled("tests/fixtures/langgraph/forty-nodes.mjs"));
const NODES = 40;
/**
 * Each life prints one of these numbers of lines, so that a run has some ten lives. Without a wait, more work would be
 * lost.
 */
const LONGEST_LIFE = { sync: 20, async: 45 };
/** The number of interrupted lives if no work were lost. */
const LEAST_INTERRUPTED = { sync: 8, async: 4 };

const cases = (["json-file", "task-file", "sqlite", "postgres"] as const).flatMap((kind) =>
  (["sync", "async"] as const).map((durability) => ({ kind, durability })),
);

describe("a graph of 40 nodes whose process is killed at random moments until it ends", () => {
  it.each(cases)("on $kind, with durability $durability", async ({ kind, durability }) => {
    const place = await newPlace(kind);
    const lives = new Lives([PROGRAM, place.url, durability]);
    const run = new Run();
    let [kills, interrupted] = [0, 0];
    for (let life = 0; run.end === undefined; life++) {
      const seed = life * cases.length + cases.findIndex((one) => one.kind === kind && one.durability === durability);
      const length = momentOf(seed, LONGEST_LIFE[durability]);
      const { lines, isKilled } = await lives.next(length);
      if (isKilled) kills += 1;
      run.read(lines, `life ${life + 1}`);
      // Most lives are killed. The life after a kill may conflict with the killed client's last statement.
      if (run.end === undefined) interrupted += 1;
    }

    const { findings, checkpoints } = await new CheckpointManager({ storage: place.open() }).maintenance.verify();
    const of = `${kind}, ${durability}`;
    process.stdout.write(
      `${of}: ${kills} kills, ${run.acknowledged.size} results acknowledged, ${run.begun} nodes begun, ${checkpoints} records\n`,
    );
    expect(interrupted).toBeGreaterThanOrEqual(LEAST_INTERRUPTED[durability]);
    expect(findings.filter((finding) => finding.kind !== "leftover")).toEqual([]);
    const { input, log, delta } = run.end;
    expect(input).toBe("from the input");
    expect(log).toHaveLength(NODES);
    expect(new Set(log).size).toBe(NODES);
    expect(delta).toEqual(log);
  });
});

/** The printed lines of all lives of a run. */
class Run {
  /** Nodes whose result and checkpoint were acknowledged. */
  readonly acknowledged = new Set<string>();
  begun = 0;
  end: { readonly input: string; readonly log: readonly string[]; readonly delta: readonly string[] } | undefined;
  readonly #stored = new Set<string>();
  readonly #written: { readonly checkpoint: string; readonly node: string }[] = [];

  read(lines: readonly string[], life: string): void {
    for (const line of lines) {
      const [what, first = "", node = ""] = line.split(" ");
      if (what === "begin") {
        this.begun += 1;
        expect(this.acknowledged, `${life} begins ${first} again`).not.toContain(first);
      } else if (what === "put") this.#stored.add(first);
      else if (what === "wrote") this.#written.push({ checkpoint: first, node });
      else if (what === "end") this.end = JSON.parse(line.slice("end ".length));
      // A server may still be running a killed client's last statement.
      else if (what === "error") expect(first, life).toBe("CHECKPOINT_CONFLICT");
      else expect(what, life).toBe("putting");
    }
    for (const { checkpoint, node } of this.#written) if (this.#stored.has(checkpoint)) this.acknowledged.add(node);
  }
}
