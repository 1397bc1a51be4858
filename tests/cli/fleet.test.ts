// Tests waymark tasks --watch, which shows the running and the waiting tasks.
import { Readable } from "node:stream";
import { describe, expect, it, onTestFinished } from "vitest";
import { Cli, type Session } from "../../cli/src/cli.js";
import { FleetView } from "../../cli/src/fleet-view.js";
import { readFleet } from "../../cli/src/queries/fleet.js";
import { deferred } from "../support/deferred.js";
import { shortenPauses } from "../support/stopped-clock.js";
import { Collected, newPlace, wholeUrl } from "./waymark.js";

const STORAGES = ["sqlite:checkpoints.db", "files:store", "tasks:store"];

/** A task in each status that a fleet has. */
async function placeOfFleet(url?: string) {
  shortenPauses();
  const place = await newPlace(url);
  const { manager } = place;
  const [drained, ended] = [new AbortController(), deferred()];
  const settled = new Set<string>();
  const all = deferred();
  const settle = ({ taskId }: { readonly taskId: string }) => {
    settled.add(taskId);
    if (settled.size === 4) all.resolve();
  };
  for (const event of ["runPaused", "runEnded"] as const) manager.on(event, settle);
  manager.on("stepStarted", ({ taskId, step }) => step === "long" && settle({ taskId }));
  for (const what of ["completes", "fails", "runs", "waits"]) await manager.enqueue(`w/${what}`, what);
  const working = manager.work<string>(
    { prefix: "w/", concurrency: 4, signal: drained.signal, pauseOnSignal: false, onError: () => undefined },
    async (run) => {
      await run.step("plan", () => 1);
      if (run.input === "fails") await run.step("build", () => Promise.reject(new Error("no room")));
      if (run.input === "waits") await run.waitFor("approve", { timeoutMs: 86_400_000 });
      if (run.input === "runs") await run.step("long", () => ended.promise);
    },
  );
  onTestFinished(async () => {
    drained.abort();
    ended.resolve();
    await working;
    await manager.close();
  });
  await all.promise;
  // No worker takes these tasks.
  await manager.enqueue("v/due");
  await manager.enqueue("v/later", undefined, { dueAt: new Date("2999-12-01T09:00:00Z") });
  return place;
}

async function withSession(
  storage: string,
  stdout: Collected,
  work: (session: Session, cli: Cli) => Promise<void>,
): Promise<void> {
  const cli = new Cli({ stdin: Readable.from([]), stdout, stderr: new Collected() }, ["tasks"], () => ({ storage }));
  await cli.withStore((session) => work(session, cli));
}

describe.each(STORAGES)("tasks --watch in %s", (url) => {
  it("prints each task's status once if there is no terminal", async () => {
    const { run } = await placeOfFleet(url);
    const { code, stdout } = await run("tasks", "--watch");
    expect(code).toBe(0);
    const [head = "", heads = "", ...rows] = stdout.trimEnd().split("\n");
    expect(head).toMatch(/^1 due, the oldest for .* seconds?; 1 being run · .* · \d\d:\d\d:\d\d UTC$/);
    expect(heads.split(/ {2,}/)).toEqual(["TASK", "STATUS", "LAST STEP", "SINCE", "RUN BY", "LEASE"]);
    const cells = rows.map((row) => row.split(/ {2,}/).slice(0, 3));
    expect(cells[0]).toEqual(["w/runs", "running", expect.stringMatching(/^long · started /)]);
    expect(rows[0]).toMatch(new RegExp(`process ${process.pid} +\\d+ s$`));
    expect(cells.slice(1).sort()).toEqual([
      ["v/due", "queued", "Enqueued"],
      ["v/later", "scheduled", "waits until 2999-12-01 09:00:00 UTC"],
      ["w/completes", "completed", "Run completed"],
      ["w/fails", "failed", "Run failed in build"],
      ["w/waits", "waiting", expect.stringMatching(/^waits for "approve", until .* UTC at most$/)],
    ]);
    expect((await run("tasks", "--watch", "--status", "failed")).stdout.split("\n")[2]).toMatch(/^w\/fails /);
    expect((await run("tasks", "--watch", "--prefix", "v/")).stdout).toMatch(
      /^1 due, the oldest for .* seconds?; 0 being run/,
    );
  });

  it("shows due tasks after those that are being run, the one that has been due the longest first", async () => {
    const { cwd, manager } = await placeOfFleet(url);
    for (const [id, due] of Object.entries({ second: 2, first: 1, third: 3 })) {
      await manager.enqueue(`v/${id}`, undefined, { dueAt: new Date(due) });
    }
    await withSession(wholeUrl(cwd, url), new Collected(), async (session) => {
      const { tasks } = await readFleet(session, { limit: 20 });
      const ids = tasks.map(({ taskId }) => taskId);
      expect(ids.slice(0, 5)).toEqual(["w/runs", "v/first", "v/second", "v/third", "v/due"]);
    });
  });

  it("shows a task in a long step before thousands of others that saved since", async () => {
    const { cwd, manager } = await placeOfFleet(url);
    for (let n = 0; n < 20; n += 1) await manager.save(`other-${n}`, n);
    await withSession(wholeUrl(cwd, url), new Collected(), async (session) => {
      const { tasks, held } = await readFleet(session, { limit: 5 });
      expect([tasks.length, held]).toEqual([5, 1]);
      expect(tasks[0]).toMatchObject({ taskId: "w/runs", lease: { token: 1 } });
    });
  });
});

it("on a terminal, redraws the screen each second, and restores it at the end", async () => {
  const { cwd, manager } = await placeOfFleet();
  const screen = new Screen(100, 12);
  const stop = new AbortController();
  await withSession(wholeUrl(cwd, "sqlite:checkpoints.db"), screen, async (session) => {
    const view = new FleetView(session, {});
    const shown = view.show(stop.signal, 10);
    await screen.drawn((frame) => frame.some((line) => /^v\/due +queued/.test(line)));
    await manager.complete("v/due");
    await screen.drawn((frame) => frame.some((line) => /^v\/due +completed/.test(line)));
    stop.abort();
    await shown;
  });
  expect(screen.text.startsWith("\u001b[?1049h\u001b[?25l")).toBe(true);
  expect(screen.text.trimEnd().endsWith("\u001b[?25h\u001b[?1049l")).toBe(true);
  for (const frame of screen.frames) {
    expect(frame.length).toBeLessThan(12);
    for (const line of frame) expect(line.length).toBeLessThanOrEqual(100);
  }
});

it("on a terminal, keeps what it showed while the storage can't be read", async () => {
  const { cwd } = await placeOfFleet();
  const screen = new Screen(100, 12);
  const stop = new AbortController();
  await withSession(wholeUrl(cwd, "sqlite:checkpoints.db"), screen, async (session) => {
    const shown = new FleetView(session, {}).show(stop.signal, 10);
    await screen.drawn((frame) => frame.some((line) => line.startsWith("w/runs")));
    await session.storage.close();
    await screen.drawn(
      (frame) =>
        /^The storage can't be read now: /.test(frame[0] ?? "") && frame.some((line) => line.startsWith("w/runs")),
    );
    stop.abort();
    await shown;
  });
});

// biome-ignore lint/suspicious/noControlCharactersInRegex: the sequences of a terminal.
const CONTROL = /\u001b\[[0-9;?]*[A-Za-z]/g;

/** A terminal that records what is drawn on it. */
class Screen extends Collected {
  readonly rows: number;
  readonly frames: string[][] = [];
  #drawn = deferred();

  constructor(columns: number, rows: number) {
    super(columns);
    this.rows = rows;
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: () => void): void {
    const text = chunk.toString();
    if (text.startsWith("\u001b[H")) {
      this.frames.push(text.replaceAll(CONTROL, "").trimEnd().split("\n"));
      this.#drawn.resolve();
      this.#drawn = deferred();
    }
    super._write(chunk, encoding, done);
  }

  /** Resolves once a frame like this was drawn. */
  async drawn(isWanted: (frame: readonly string[]) => boolean): Promise<void> {
    for (let at = this.frames.length; ; at += 1) {
      while (this.frames.length <= at) await this.#drawn.promise;
      if (isWanted(this.frames[at] ?? [])) return;
    }
  }
}
