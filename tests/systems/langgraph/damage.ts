// Damages stored threads by the means of the storage, and checks the saver's reaction.
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Annotation, Command, DeltaChannel, interrupt, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { administer, collect } from "../../support/postgres.js";
import { newPlace, type Place, type StorageKind, saverOn, threadOf, writesOf } from "./storages.js";

/** The damaged part of a record: its summary or its state. */
type Part = "header" | "state";

/** Damages every record that contains the text. */
async function damage(place: Place, text: string, part: Part): Promise<void> {
  const damaged = await {
    memory: () => Promise.reject(new Error("Memory isn't damaged.")),
    "json-file": () => damageLines(place, text, part),
    "task-file": () => damageLines(place, text, part),
    sqlite: async () => damageRows(place, text, part),
    postgres: () => damageRowsOfServer(place, text, part),
  }[place.kind]();
  expect(damaged, `records with ${text}`).toBeGreaterThan(0);
}

/** A line is a whole record, its header, or its state. */
async function damageLines({ folder, kind }: Place, text: string, part: Part): Promise<number> {
  const files = (await readdir(folder, { recursive: true })).filter((name) => /\.jsonl?$/.test(name));
  let count = 0;
  for (const file of files) {
    const path = join(folder, file);
    const content = await readFile(path, "utf8");
    if (!content.includes(text)) continue;
    const lines = content.split("\n");
    const [header, state] = lines;
    const damaged = file.endsWith("log.jsonl")
      ? lines.map((line) =>
          line.includes('"kind":') && line.slice(line.indexOf('"value":')).includes(text)
            ? // Each line names its place in the file, so its length stays.
              part === "header"
              ? line.replace('"sequence":', '"SEQUENCE":')
              : line.replace('"value":{', '"value":7')
            : line,
        )
      : kind === "json-file"
        ? part === "header"
          ? [header?.slice(0, -9), ...lines.slice(1)]
          : [header, state?.replace('"state":', '"state":7'), ...lines.slice(2)]
        : lines.map((line, i) => {
            if (i === 0 || !line.includes(text)) return line;
            return part === "header"
              ? line.replace('"sequence":', '"sequenc":')
              : line.replace('"state":{', '"state":{"damage":7,');
          });
    count += damaged.filter((line, i) => line !== lines[i]).length;
    await writeFile(path, damaged.join("\n"));
  }
  return count;
}

function damageRows({ folder }: Place, text: string, part: Part): number {
  const database = new Database(join(folder, "agent.db"));
  const rows =
    "SELECT number FROM waymark_checkpoints LEFT JOIN waymark_payloads USING (number) WHERE instr(id || body, ?)";
  const inLog = database
    .prepare(
      `UPDATE waymark_records SET ${part === "header" ? "kind = 'damaged'" : `body = '{"damage":7}'`} WHERE instr(body, ?)`,
    )
    .run(text);
  const { changes } = database
    .prepare(
      part === "header"
        ? `UPDATE waymark_checkpoints SET status = 'damaged' WHERE number IN (${rows})`
        : `UPDATE waymark_payloads SET body = '{"damage":7}' WHERE number IN (${rows})`,
    )
    .run(text);
  database.close();
  return changes + inLog.changes;
}

async function damageRowsOfServer({ schema }: Place, text: string, part: Part): Promise<number> {
  if (schema === undefined) throw new Error("There is no schema.");
  const set = part === "header" ? "status = 'damaged'" : `body = '{"damage":7}'`;
  const rows = await administer(
    schema.url,
    `UPDATE "${schema.schema}".checkpoints SET ${set} WHERE position($1 in id || convert_from(body, 'UTF8')) > 0 RETURNING 1`,
    [text],
  );
  const inLog = await administer(
    schema.url,
    `UPDATE "${schema.schema}".records SET ${part === "header" ? "kind = 'damaged'" : set} WHERE position($1 in convert_from(body, 'UTF8')) > 0 RETURNING 1`,
    [text],
  );
  return rows.length + inLog.length;
}

const State = Annotation.Root({
  kept: Annotation<string>,
  step: Annotation<string>,
  delta: () => new DeltaChannel<string[], string[]>((log, more) => [...log, ...more.flat()]),
});

/** Each turn makes five checkpoints. */
const compiled = (checkpointer: BaseCheckpointSaver) =>
  new StateGraph(State)
    .addNode("first", () => ({ step: "first", delta: ["of first"] }))
    .addNode("second", () => ({ step: "second" }))
    .addNode("third", () => ({ step: "third" }))
    .addEdge(START, "first")
    .addEdge("first", "second")
    .addEdge("second", "third")
    .compile({ checkpointer });

export function registerDamage(kind: StorageKind): void {
  describe(`on ${kind}, damage`, () => {
    /** A thread of one turn, with its checkpoints, newest first. */
    async function thread() {
      const place = await newPlace(kind);
      await compiled(saverOn(place)).invoke({ kept: "from the input", step: "input" }, threadOf("t"));
      const tuples = await collect(saverOn(place).list(threadOf("t")));
      return { place, ids: tuples.map(({ checkpoint }) => checkpoint.id) };
    }

    it.each(["header", "state"] as const)(
      "of the newest one's %s: it is reported, and the next one is given",
      async (part) => {
        const { place, ids } = await thread();
        await damage(place, `${ids[0]}`, part);
        const saver = saverOn(place);
        const graph = compiled(saver);

        for (const times of [1, 2]) {
          const { checkpoint } = (await saver.getTuple(threadOf("t"))) ?? {};
          expect(checkpoint).toMatchObject({ id: ids[1], channel_values: { kept: "from the input", step: "second" } });
          // Once per read.
          const warning = { level: "warn", message: expect.stringContaining("corrupt") };
          expect(saver.logged).toEqual(Array.from({ length: times }, () => expect.objectContaining(warning)));
        }
        await expect(saver.getTuple(threadOf("t", { checkpoint_id: `${ids[0]}` }))).rejects.toMatchObject({
          code: "CHECKPOINT_CORRUPT",
        });
        expect((await collect(saver.list(threadOf("t")))).map(({ checkpoint }) => checkpoint.id)).toEqual(ids.slice(1));

        // The thread continues from the readable checkpoint, in this process and in the next.
        expect(await graph.invoke(null, threadOf("t"))).toMatchObject({ kept: "from the input", step: "third" });
        const next = compiled(saverOn(place));
        expect(await next.invoke({ step: "again" }, threadOf("t"))).toMatchObject({
          kept: "from the input",
          step: "third",
        });
      },
    );

    it("of a value that newer ones share: the newest that doesn't need it is given", async () => {
      const { place, ids } = await thread();
      // Damages a value of the second checkpoint; the first has it in the input.
      await damage(place, '"kept":{"json"', "state");
      const saver = saverOn(place);
      expect((await saver.getTuple(threadOf("t")))?.checkpoint.id).toBe(ids.at(-1));
      const warning = {
        level: "warn",
        message: expect.stringContaining('thread "t" continues from an older checkpoint'),
      };
      expect(saver.logged).toEqual([expect.objectContaining(warning)]);
      for (const id of ids.slice(0, -1)) {
        const config = threadOf("t", { checkpoint_id: id });
        await expect(saver.getTuple(config), id).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
      }
      expect(await compiled(saver).invoke(null, threadOf("t"))).toMatchObject({
        kept: "from the input",
        step: "third",
      });
    });

    it.each(["header", "state"] as const)(
      "of pending writes' %s: it is reported, and their node runs again",
      async (part) => {
        const place = await newPlace(kind);
        const runs: string[] = [];
        const graph = (checkpointer: BaseCheckpointSaver) =>
          new StateGraph(Annotation.Root({ a: Annotation<string>, b: Annotation<string>, c: Annotation<string> }))
            .addNode("node a", () => {
              runs.push("a");
              return { a: "result of a" };
            })
            .addNode("node b", () => {
              runs.push("b");
              return { b: "result of b" };
            })
            .addNode("node c", () => ({ c: interrupt("go on?") }))
            .addEdge(START, "node a")
            .addEdge(START, "node b")
            .addEdge(START, "node c")
            .compile({ checkpointer });
        await graph(saverOn(place)).invoke({ a: "" }, threadOf("t"));
        await damage(place, "result of a", part);
        const saver = saverOn(place);
        const resumed = await graph(saver).invoke(new Command({ resume: "yes" }), threadOf("t"));
        expect(resumed).toEqual({ a: "result of a", b: "result of b", c: "yes" });
        expect(runs.sort()).toEqual(["a", "a", "b"]);
        expect(saver.logged.filter(({ level }) => level === "warn").length).toBeGreaterThan(0);
      },
    );

    it("of all pending writes: the checkpoint is given without them", async () => {
      const { place, ids } = await thread();
      await damage(place, '"third"', "state");
      const tuple = await saverOn(place).getTuple(threadOf("t"));
      expect(tuple).toMatchObject({ checkpoint: { id: ids[1] }, pendingWrites: [] });
    });

    it.each(["header", "state"] as const)(
      "of a DeltaChannel's writes, their %s: its value isn't given without them",
      async (part) => {
        const { place, ids } = await thread();
        await damage(place, "of first", part);
        const graph = compiled(saverOn(place));
        await expect(graph.getState(threadOf("t"))).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
        await expect(graph.invoke(null, threadOf("t"))).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
        // Before the damage, the value is complete.
        const before = await graph.getState(threadOf("t", { checkpoint_id: `${ids[3]}` }));
        expect(before).toMatchObject({ next: ["first"], values: { kept: "from the input", step: "input" } });
      },
    );

    it("of an old one: pruning leaves it and its writes", async () => {
      const { place, ids } = await thread();
      await damage(place, `${ids[2]}`, "header");
      await saverOn(place).prune("t", { keepLast: 1 });
      expect((await writesOf(place, "t")).map(({ name }) => name)).toContain(ids[2]);
    });

    it("of a whole thread: it can still be deleted", async () => {
      const { place } = await thread();
      await damage(place, "", "header");
      const saver = saverOn(place);
      await expect(saver.getTuple(threadOf("t"))).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
      await saver.deleteThread("t");
      expect(await saver.getTuple(threadOf("t"))).toBeUndefined();
    });
  });
}
