// Tests waymark logs and waymark wait, which show a task's new records and its result.
import { once } from "node:events";
import { describe, expect, it, onTestFinished } from "vitest";
import { deferred } from "../support/deferred.js";
import { newPlace, start, waymark, waymarkProcess } from "./waymark.js";

/** Opens a place, and closes it after the test. */
async function openPlace(url?: string) {
  const place = await newPlace(url);
  onTestFinished(() => place.manager.close());
  return place;
}

type Place = Awaited<ReturnType<typeof openPlace>>;

/** Runs task `t`, whose step `model` writes a text in pieces. Its last step throws. */
async function failAfterText({ manager }: Place) {
  const running = manager.run("t", async (run) => {
    await run.step("plan", () => ({ files: 2 }));
    await run.step("model", ({ write }) => {
      for (const text of ["Hel", "lo\u001b[31m,\nwor", "ld"]) void write(text);
      return "Hello, world";
    });
    await run.step("build", () => Promise.reject(new TypeError("no room")));
  });
  await expect(running).rejects.toThrow("no room");
}

/** A command as a process; `seen` resolves once its standard output has the text. */
function startCommand(place: Pick<Place, "place">, ...args: string[]) {
  const child = start(place.place, args, { stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "close");
  let stdout = "";
  const wanted: { readonly text: string; readonly resolve: () => void }[] = [];
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    for (const { text, resolve } of wanted) if (stdout.includes(text)) resolve();
  });
  const seen = (text: string) => new Promise<void>((resolve) => void wanted.push({ text, resolve }));
  return { child, ended, seen, stdout: () => stdout };
}

describe("waymark logs", () => {
  it.each(["sqlite:checkpoints.db", "files:store"])(
    "prints a task's records, the oldest first, and what a step writes as it is, in %s",
    async (url) => {
      const place = await openPlace(url);
      await failAfterText(place);
      const { code, stdout, stderr } = await place.run("logs", "t");
      expect([code, stderr]).toEqual([0, ""]);
      expect(stdout).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d @1 checkpoint running · Run started\n/m);
      expect(stdout).toMatch(/ @\d+ step plan · \d+ ms\n/);
      expect(stdout).toMatch(/\nHello\\u001b\[31m,\nworld\n\S+ \S+ @\d+ step model · \d+ ms\n/);
      expect(stdout).toMatch(/ step build · started\n.* step build · \d+ ms · failed: TypeError: no room\n/);
      expect(stdout).toMatch(/ run failed TypeError: no room\n/);
      expect(stdout).toMatch(/ checkpoint failed · Run failed in build · TypeError: no room\n$/);
    },
  );

  it("prints with --json one record per line, and with --after only later ones", async () => {
    const place = await openPlace();
    await failAfterText(place);
    const lines = (await place.run("logs", "t", "--json")).stdout.trimEnd().split("\n");
    const records = lines.map((line) => JSON.parse(line));
    expect(records.find(({ kind }) => kind === "chunk")).toMatchObject({ name: "model", value: { chunk: "Hel" } });
    const { sequence } = records.at(-3);
    const after = (await place.run("logs", "t", "--json", "--after", String(sequence))).stdout;
    expect(after.trimEnd().split("\n")).toEqual(lines.slice(-2));
  });

  it("follows a run with -f from another process, until it ends", async () => {
    const place = await openPlace();
    const [shown, wrote] = [deferred(), deferred()];
    const running = place.manager.run("t", (run) =>
      run.step("model", async ({ write }) => {
        await write("Once upon ");
        wrote.resolve();
        await shown.promise;
        await write("a time");
      }),
    );
    await wrote.promise;
    const logs = startCommand(place, "logs", "t", "-f");
    await logs.seen("Once upon ");
    shown.resolve();
    await running;
    expect(await logs.ended).toEqual([0, null]);
    expect(logs.stdout()).toMatch(
      /\nOnce upon a time\n\S+ \S+ @\d+ step model · .*\n(.*\n)*.* checkpoint completed · Run completed\n$/,
    );
  });

  it("ends at Ctrl-C as Ctrl-C ends a program, and leaves the run alone", async () => {
    const place = await openPlace();
    await place.manager.enqueue("t");
    const logs = startCommand(place, "logs", "t", "--follow");
    await logs.seen("Enqueued");
    logs.child.kill("SIGINT");
    expect(await logs.ended).toEqual([null, "SIGINT"]);
    expect(logs.stdout()).toMatch(/ checkpoint paused · Enqueued\n$/);
    expect((await place.manager.tasks()).map(({ status }) => status)).toEqual(["queued"]);
  });

  it("doesn't wait for a task that isn't there", async () => {
    const place = await openPlace();
    await place.manager.save("other", 1);
    for (const command of [
      ["logs", "t", "-f"],
      ["wait", "t"],
    ])
      expect((await place.run(...command)).code).toBe(3);
  });
});

describe("waymark wait", () => {
  it("prints the result once another process has completed the run", async () => {
    const place = await openPlace();
    const waiting = deferred();
    const running = place.manager.run("t", async (run) => {
      await run.step("build", () => waiting.promise);
      return { ok: true, at: new Date(0) };
    });
    const wait = startCommand(place, "wait", "t", "--json");
    const logs = startCommand(place, "logs", "t", "-f");
    await logs.seen("step build · started");
    waiting.resolve();
    await running;
    expect(await wait.ended).toEqual([0, null]);
    const result = { ok: true, at: "1970-01-01T00:00:00.000Z" };
    expect(JSON.parse(wait.stdout())).toEqual({ taskId: "t", status: "completed", result });
    expect((await place.run("wait", "t")).stdout).toBe(`${JSON.stringify(result, undefined, 2)}\n`);
  });

  it("prints a text as it is, and tells of a run without a result", async () => {
    const place = await openPlace();
    await place.manager.run("text", () => "two\nlines\u001b[31m");
    await place.manager.run("none", () => undefined);
    expect((await place.run("wait", "text")).stdout).toBe("two\nlines\\u001b[31m\n");
    expect(await place.run("wait", "none")).toEqual({
      code: 0,
      stdout: "",
      stderr: "It is completed, without a result.\n",
    });
    expect((await place.run("wait", "none", "--json")).stdout).toBe('{"taskId":"none","status":"completed"}\n');
  });

  it("exits with 1 if the run failed, with 6 if it was cancelled, and with 6 at the time limit", async () => {
    const place = await openPlace();
    await failAfterText(place);
    for (const taskId of ["late", "waits"]) await place.manager.enqueue(taskId);
    await place.manager.cancel("late", "too old");
    const failed = await place.run("wait", "t", "--json");
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining('The run of task "t" failed: no room.')]);
    expect(JSON.parse(failed.stdout)).toEqual({
      taskId: "t",
      status: "failed",
      error: { name: "TypeError", message: "no room" },
    });
    const cancelled = await place.run("wait", "late", "--json");
    expect([cancelled.code, cancelled.stderr]).toEqual([6, expect.stringContaining("was cancelled: too old")]);
    expect(JSON.parse(cancelled.stdout)).toMatchObject({ status: "cancelled", error: { code: "RUN_CANCELLED" } });
    const late = await waymarkProcess(place.place, ["wait", "waits", "--timeout", "0.01", "--json"]);
    expect([late.code, late.stderr]).toEqual([6, expect.stringContaining("isn't done after 0.01 s")]);
    expect(JSON.parse(late.stdout)).toEqual({ taskId: "waits", status: "queued" });
    expect((await waymark(place.place, ["wait", "waits", "--timeout", "soon"])).code).toBe(2);
  });

  it("ends at Ctrl-C as Ctrl-C ends a program", async () => {
    const place = await openPlace();
    await place.manager.enqueue("t");
    const tell = 'process.on("newListener", (name) => name === "SIGINT" && process.stdout.write("listens"))';
    const env = { ...place.place.env, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(tell)}` };
    const wait = startCommand({ place: { ...place.place, env } }, "wait", "t");
    await wait.seen("listens");
    wait.child.kill("SIGINT");
    expect(await wait.ended).toEqual([null, "SIGINT"]);
  });
});
