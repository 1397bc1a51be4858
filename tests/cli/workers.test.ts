// Tests the command on runs that wait, fail or are cancelled, and on workers.
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import type { Run } from "waymark";
import { openStorage } from "waymark/adapters";
import { WaymarkSaver } from "waymark/langgraph";
import { z } from "zod";
import { run } from "../../cli/src/run.js";
import { deferred } from "../support/deferred.js";
import { shortenPauses } from "../support/stopped-clock.js";
import { runOf } from "../unit/runs/run-support.js";
import { worked } from "./waiting-tasks.js";
import { Collected, wholeUrl } from "./waymark.js";
import { type Place, placeOf, startWorker, WORKER } from "./worker-process.js";

beforeEach(shortenPauses);

describe.each(["sqlite:checkpoints.db", "files:store"])("a run that waits, in %s,", (url) => {
  it("is shown with what it waits for, and with the command that answers it", async () => {
    const place = await placeOf(url);
    await worked(place.manager, { "w/1": "waits" });
    const answer = answerTo("w/1");
    const listed = await place.run("tasks");
    expect(listed.stdout).toMatch(/^w\/1 +2 +waiting .* just now +waits for "approve"$/m);
    expect(listed.stderr).toMatch(answer);
    const resumed = await place.run("resume");
    expect(resumed.stdout).toMatch(/^w\/1 +Run waits for "approve" +just now +waiting +waits for "approve"$/m);
    expect(resumed.stderr).toMatch(answer);
    expect((await place.run("list", "w/1")).stderr).toMatch(answer);
    const shown = (await place.run("show", "w/1")).stdout;
    expect(shown).toMatch(
      /^waits +for "approve", for .* seconds?\nanswer +waymark send --wait \w{8} w\/1 approve '…'$/m,
    );
    expect(shown).toMatch(/^ +approve · waits$/m);
    expect(shown).toMatch(/^status +waiting\nwaits /m);
    expect((await place.run("list", "w/1")).stdout).toMatch(/^ *\d+ +\S+ \S+ +waiting +/m);
    expect(JSON.parse((await place.run("resume", "--json")).stdout)).toMatchObject([
      { taskId: "w/1", why: 'waits for "approve"', waits: { waitsFor: ["approve"], dueAt: expect.any(String) } },
    ]);
  });

  it("is shown with its question", async () => {
    const place = await placeOf(url);
    const stop = new AbortController();
    place.manager.on("waitStarted", () => stop.abort());
    const schema = z.object({ ok: z.boolean() });
    const program = place.manager.run("w/1", (run) => run.waitFor("approve", { ask: "May it go out?", schema }), {
      signal: stop.signal,
    });
    await expect(program).rejects.toMatchObject({ code: "RUN_PAUSED" });
    expect((await place.run("show", "w/1")).stdout).toMatch(/^steps +approve · waits · May it go out\?$/m);
    const { run: shown } = JSON.parse((await place.run("show", "w/1", "--json")).stdout);
    expect(shown.steps).toMatchObject([{ name: "approve", status: "started", ask: { question: "May it go out?" } }]);
  });

  it("is also shown as waiting while its process runs, and after the process was killed", async () => {
    const place = await placeOf(url);
    await worked(place.manager, { "w/1": "waits" });
    const { id } = await place.manager.latest("w/1").then((newest) => newest ?? expect.fail());
    const storage = openStorage(url, { relativeTo: place.cwd });
    onTestFinished(() => storage.close());
    await storage.setStatus("w/1", id, { status: "running" });
    const lease = await place.manager.lease("w/1");
    const answer = answerTo("w/1");
    const listed = await place.run("tasks");
    expect(listed.stdout).toMatch(/^w\/1 .* running .* waits for "approve", running on .*, process \d+$/m);
    expect((await place.run("resume")).stdout).toMatch(/ waits for "approve", running on .*, process \d+$/m);
    await lease.release();
    for (const command of ["tasks", "resume"]) expect((await place.run(command)).stderr).toMatch(answer);
    expect((await place.run("list", "w/1")).stderr).toMatch(answer);
    expect((await place.run("show", "w/1")).stdout).toMatch(
      /^status +interrupted\nwhy +waits for "approve"; a worker or the next run continues it\nwaits +for "approve", /m,
    );
    expect(listed.stderr).toMatch(answer);
  });

  it("is also shown as waiting in a fork that hasn't run yet", async () => {
    const place = await placeOf(url);
    await worked(place.manager, { "w/1": "waits" });
    expect((await place.run("fork", "w/1", "@latest", "w/2")).code).toBe(0);
    const answer = answerTo("w/2");
    expect((await place.run("list", "w/2")).stderr).toMatch(answer);
    expect((await place.run("show", "w/2")).stdout).toMatch(/^waits +for "approve", for .* seconds?$/m);
    for (const command of ["tasks", "resume"]) {
      const { stdout, stderr } = await place.run(command, "--prefix", "w/2");
      expect(stdout).toMatch(/^w\/2 .* queued .*waits for "approve"; a worker or the next run continues it/m);
      expect(stderr).toMatch(answer);
    }
  });

  it("reports what it waits for if its program was stopped or killed while it waited", async () => {
    const { manager, run: command, cwd, open } = await placeOf(url);
    const stop = new AbortController();
    const waits = told(manager);
    const running = manager.run("t", (its) => its.waitFor("approve", { timeoutMs: 86_400_000 }), {
      signal: stop.signal,
    });
    await waits;
    stop.abort();
    await expect(running).rejects.toThrow();
    const reason = 'waits for "approve"; a worker or the next run continues it';
    for (const one of ["tasks", "resume"]) {
      const { stdout, stderr } = await command(one);
      expect([stdout, stderr]).toEqual([
        expect.stringMatching(new RegExp(`^t .* paused .*${reason}`, "m")),
        expect.stringMatching(answerTo("t")),
      ]);
    }
    expect((await command("tasks", "--watch")).stdout).toMatch(/^t +paused +waits for "approve" /m);

    const program = `import { CheckpointManager } from "${new URL("../../dist/src/index.js", import.meta.url).href}";
      import { openStorage } from "${new URL("../../dist/adapters/index.js", import.meta.url).href}";
      const manager = new CheckpointManager({ storage: openStorage("${url}") });
      manager.on("waitStarted", () => process.kill(process.pid, "SIGKILL"));
      await manager.run("k", (run) => run.waitFor("approve"));`;
    spawnSync(process.execPath, ["--input-type=module", "-e", program], { cwd });
    expect((await command("show", "k")).stdout).toMatch(
      /^status +interrupted\nlast run +died on .*\nwaits +for "approve", /m,
    );
    expect((await command("list", "k")).stdout).toMatch(/^ *\d+ +\S+ \S+ +interrupted /m);
    expect((await command("resume")).stdout).toMatch(
      new RegExp(`^k .* interrupted +waits for "approve"; died on ${hostname()}, process \\d+; last seen`, "m"),
    );
    await using other = await open();
    await other.send("k", "approve");
    const answered = await command("resume", "--prefix", "k");
    expect([answered.stdout, answered.stderr]).toEqual([
      expect.stringMatching(/ interrupted +"approve" is answered; died on /),
      "",
    ]);
  });

  it("reports below a list on a terminal how to answer the first ones, and how many more wait", async () => {
    const { manager, cwd } = await placeOf(url);
    await worked(manager, { "w/1": "waits", "w/2": "waits", "w/3": "waits", "w/4": "waits", "w/5": "waits" });
    const terminal = new Collected(100);
    const streams = { stdin: Readable.from([]), stdout: terminal, stderr: terminal };
    expect(await run(["tasks", "--storage", wholeUrl(cwd, url)], streams)).toBe(0);
    const lines = terminal.text.trimEnd().split("\n");
    expect(lines.slice(-5)).toEqual([
      expect.stringMatching(/^w\/5 /),
      ...["w/1", "w/2", "w/3"].map((task) => expect.stringContaining(` ${task} approve '…'`)),
      '2 more runs wait; "waymark show TASK" shows how to answer each.',
    ]);
  });

  it("continues after the event", async () => {
    const place = await placeOf(url);
    await worked(place.manager, { "w/1": "waits" });
    const sent = await place.run("send", "w/1", "approve", '{"ok":true}', "--by", "ada", "--id", "s1");
    expect(sent).toEqual({
      code: 0,
      stderr: "",
      stdout:
        'Sent event "approve" to task "w/1" as s1. The run waits for it and is due now; "waymark show" tells whether it accepts the value.\n',
    });
    // No worker is running.
    const answered = /^w\/1 .* queued .*"approve" is answered; a worker or the next run continues it/m;
    for (const command of ["tasks", "resume"]) {
      const { stdout, stderr } = await place.run(command);
      expect([stdout, stderr]).toEqual([expect.stringMatching(answered), ""]);
    }
    expect((await place.run("tasks", "--watch")).stdout).toMatch(/^w\/1 +queued +"approve" is answered /m);
    expect(JSON.parse((await place.run("tasks", "--json")).stdout)).toMatchObject([
      { newest: { status: "paused" }, waits: { waitsFor: ["approve"], answered: ["approve"] } },
    ]);
    expect((await place.run("list", "w/1")).stderr).toBe(
      '"approve" is answered; a worker or the next run continues it.\n',
    );
    const shown = (await place.run("show", "w/1")).stdout;
    expect(shown).toMatch(
      /^status +queued\nwhy +"approve" is answered; a worker or the next run continues it\nwaits +for "approve", answered\n/m,
    );
    expect((await place.run("list", "w/1")).stdout).toMatch(/^ *\d+ +\S+ \S+ +queued +/m);
    expect(shown).not.toMatch(/^answer /m);
    await worked(place.manager, { "w/1": "waits" });
    expect((await place.manager.latest("w/1"))?.status).toBe("completed");
    const { stdout } = await place.run("show", "w/1");
    expect(stdout).toMatch(/^events +approve \{"ok":true\} from ada, .*: received$/m);
    // The last attempt ended the wait, which an earlier attempt began.
    expect(stdout).toMatch(/^steps +plan · \d+ ms · from storage\n +approve · \S+ m?s$/m);
    // The run has an input, and neither metadata of the user nor a state.
    expect(stdout).toMatch(/^run .*\ninput +"waits"\nsteps /m);
    expect(stdout).not.toMatch(/^(metadata|state) /m);
  });
});

/** The line that says how to answer the task's wait for `approve`. */
function answerTo(task: string): RegExp {
  return new RegExp(`^To answer: waymark send --wait [0-9a-f]{8} ${task} approve '…'$`, "m");
}

describe("waymark send", () => {
  it("keeps what the run doesn't wait for yet, and counts an id once", async () => {
    const { manager, run } = await placeOf();
    await manager.enqueue("w/1");
    const first = await run("send", "w/1", "approve", "--id", "s1", "--json");
    expect(JSON.parse(first.stdout)).toEqual({ taskId: "w/1", name: "approve", id: "s1", isAwaited: false });
    const again = await run("send", "w/1", "approve", "--id", "s1");
    expect(again.stdout).toBe(
      'The event "approve" was sent to task "w/1" before, as s1. It is kept until the run waits for it.\n',
    );
    const other = await run("send", "w/1", "approve", "5", "--id", "s1");
    expect([other.code, other.stderr]).toEqual([6, expect.stringContaining("another name or value")]);
    expect(await manager.events("w/1")).toMatchObject([
      { id: "s1", name: "approve", value: undefined, by: expect.stringMatching(`@${hostname()}$`), status: "pending" },
    ]);
  });

  it("names what the run waits for if the event has another name", async () => {
    const { manager, run } = await placeOf();
    await worked(manager, { "w/1": "waits" });
    const sent = await run("send", "w/1", "aprove", "--id", "s1");
    expect(sent).toEqual({
      code: 0,
      stderr: "",
      stdout:
        'Sent event "aprove" to task "w/1" as s1. It is kept until the run waits for it. Its run waits for "approve".\n',
    });
    const { stdout } = await run("send", "w/1", "aprove", "--id", "s2", "--json");
    expect(JSON.parse(stdout)).toEqual({ taskId: "w/1", name: "aprove", id: "s2", isAwaited: false });
  });

  it("reports that one is pending already, and for what the second one is kept", async () => {
    const { manager, run } = await placeOf();
    await worked(manager, { "w/1": "waits" });
    await run("send", "w/1", "approve", "true", "--id", "s1");
    expect((await run("send", "w/1", "approve", "false", "--id", "s2")).stdout).toBe(
      'Sent event "approve" to task "w/1" as s2. Another event "approve" is pending already, so this one is kept for the next wait of that name.\n',
    );
    const json = await run("send", "w/1", "approve", "false", "--id", "s2", "--json");
    expect(JSON.parse(json.stdout)).toEqual({
      ...{ taskId: "w/1", name: "approve", id: "s2", isAwaited: false, before: { status: "pending" } },
    });
    expect((await run("send", "w/1", "approve", "true", "--id", "s1")).stdout).toBe(
      'The event "approve" was sent to task "w/1" before, as s1. The run waits for it and is due now; "waymark show" tells whether it accepts the value.\n',
    );
  });

  it("an event for a wait that isn't open answers no other wait, and `show` reports it", async () => {
    const { manager, run } = await placeOf();
    await worked(manager, { "w/1": "waits" });
    await manager.send("w/1", "approve", true, { id: "s1", wait: "of an earlier question", force: true });
    const { stdout } = await run("show", "w/1");
    expect(stdout).toMatch(/^events +approve true, .*: pending, for a wait that isn't open$/m);
    expect(stdout).toMatch(/^answer +waymark send --wait \w{8} w\/1 approve/m);
    expect((await run("tasks")).stdout).toContain('waits for "approve"');
    expect(JSON.parse((await run("show", "w/1", "--json")).stdout).events).toMatchObject([{ wait: { isOpen: false } }]);
    expect((await run("send", "w/1", "approve", "true")).stdout).toMatch(/The run waits for it and is due now; /);
  });

  it("says of an id that was received or refused that nothing was sent", async () => {
    const { manager, run } = await placeOf();
    const told = new Promise((resolve) => manager.on("eventRefused", resolve));
    await manager.enqueue("w/1");
    const waiting = manager.run("w/1", async (its) => (await its.waitFor("approve", { schema: z.number() })).value);
    await run("send", "w/1", "approve", '"no"', "--id", "s1");
    await told;
    const refused = await run("send", "w/1", "approve", '"no"', "--id", "s1");
    expect(refused.stdout).toMatch(
      /^The event "approve" of task "w\/1" was refused before, as s1: .*expected number.* Nothing was sent; send it with another id\.$/m,
    );
    expect((await run("show", "w/1")).stdout).toMatch(/^events +approve "no" from .*: refused: .*expected number/m);
    await run("send", "w/1", "approve", "5", "--id", "s2");
    expect(await waiting).toBe(5);
    const received = await run("send", "w/1", "approve", "5", "--id", "s2");
    expect(received.stdout).toBe('The event "approve" of task "w/1" was received before, as s2. Nothing was sent.\n');
    expect(JSON.parse((await run("send", "w/1", "approve", "5", "--id", "s2", "--json")).stdout)).toEqual({
      ...{ taskId: "w/1", name: "approve", id: "s2", isAwaited: false, before: { status: "received" } },
    });
    expect(JSON.parse((await run("show", "w/1", "--json")).stdout).events).toMatchObject([
      { id: "s1", name: "approve", value: "no", status: "refused", reason: expect.stringContaining("expected number") },
      { id: "s2", value: 5, status: "received" },
    ]);
    expect(await manager.events("w/1")).toHaveLength(2);
  });

  it("tells that a run waits which is under way", async () => {
    const { manager, run } = await placeOf();
    const waits = told(manager);
    const running = manager.run("t", async (its) => (await its.waitFor("approve")).value);
    await waits;
    expect((await run("show", "t")).stdout).toMatch(/^answer +waymark send --wait \w{8} t approve /m);
    expect((await run("send", "t", "approve", "[1]")).stdout).toContain("The run waits for it and is due now; ");
    expect(await running).toEqual([1]);
  });

  it("refuses tasks that nothing will receive it for", async () => {
    const place = await placeOf();
    await worked(place.manager, { "w/fails": "fails", "w/ends": "ends", "w/waits": "waits" });
    await place.manager.cancel("w/waits", "not needed");
    const refusal = async (task: string) => {
      const { code, stderr } = await place.run("send", task, "approve");
      return [code, stderr];
    };
    const insist = /its task is completed, so nothing receives it\. .* pass `force: true`, or --force to the command/;
    expect(await refusal("w/ends")).toEqual([6, expect.stringMatching(insist)]);
    expect(await refusal("w/waits")).toEqual([6, expect.stringContaining("was cancelled (not needed)")]);
    // The beginning of an id could match another task after the intended task was removed.
    expect(await refusal("w/end")).toEqual([3, expect.stringContaining("w/ends")]);
    expect(await place.manager.events("w/ends")).toEqual([]);
    const forced = await place.run("send", "w/ends", "approve", "--force");
    expect(forced.stdout).toMatch(/Its task is completed, so only a run with restart: true receives it\.\n$/);
    const failed = await place.run("send", "w/fails", "approve");
    expect(failed.stdout).toMatch(
      /The run has failed: "waymark retry" puts it back, and then it receives the event\.\n$/,
    );
  });

  it("answers the wait that show printed, once", async () => {
    const { manager, run } = await placeOf();
    await worked(manager, { "w/1": "waits" });
    const [, key = ""] = /send --wait (\w{8}) /.exec((await run("show", "w/1")).stdout) ?? [];
    const { run: record } = JSON.parse((await run("show", "w/1", "--json")).stdout);
    expect(record.steps.at(-1).key.startsWith(key)).toBe(true);
    const sent = await run("send", "--wait", key, "w/1", "approve", "1");
    expect(sent.stdout).toMatch(/The run waits for it and is due now; /);
    const again = await run("send", "--wait", key, "w/1", "approve", "1");
    expect([again.code, again.stderr]).toEqual([6, expect.stringMatching(/the wait \w{32} is answered by event/)]);
    await worked(manager, { "w/1": "waits" });
    await manager.save("w/1", {});
    const late = await run("send", "--wait", key, "w/1", "approve", "1");
    expect([late.code, late.stderr]).toEqual([6, expect.stringMatching(/the wait \w{8} isn't open/)]);
  });
});

describe("waymark cancel and retry", () => {
  it("cancel a task after a question, whoever runs it", async () => {
    const { manager, run } = await placeOf();
    const [started, stopped] = [deferred(), deferred()];
    const lease = await manager.lease("t", { ttlMs: 1000 });
    const program = async (its: Run<unknown, unknown, undefined>) => {
      its.signal.addEventListener("abort", () => stopped.resolve());
      started.resolve();
      await its.step("long", () => stopped.promise);
    };
    const running = manager.run("t", program, { lease });
    const ended = expect(running).rejects.toThrow();
    await started.promise;
    const asked = await run("cancel", "t", "--reason", "too old");
    expect([asked.code, asked.stderr]).toEqual([
      4,
      expect.stringMatching(/Cancel task "t", running on .*, process \d+ in /),
    ]);
    expect((await run("cancel", "t", "--reason", "too old", "--yes")).stdout).toBe("Cancelled 1 task.\n");
    await ended;
    expect((await run("resume")).stderr).toMatch(/^Nothing to resume in .*: no task can continue\.$/m);
    expect((await run("tasks")).stdout).toMatch(/^t .* cancelled .* too old$/m);
    expect((await run("tasks", "--watch")).stdout).toMatch(/^t +cancelled +too old /m);
    const listed = await run("list", "t");
    expect([listed.stdout, listed.stderr]).toEqual([
      expect.stringMatching(/ cancelled /),
      "It is cancelled: too old\n",
    ]);
    const shown = (await run("show", "t")).stdout;
    expect(shown).toMatch(/^status +cancelled\nreason +too old$/m);
    expect(shown).not.toContain("RUN_CANCELLED");
    expect((await run("cancel", "t", "--reason", "again")).stdout).toBe("It is cancelled already.\n");
    const retried = await run("retry", "t");
    expect([retried.code, retried.stderr]).toEqual([6, expect.stringContaining("was cancelled: too old")]);
  });

  it("put failed tasks back, by id and by prefix", async () => {
    const place = await placeOf();
    await worked(place.manager, { "w/1": "fails", "w/2": "fails", "w/3": "ends" });
    expect((await place.run("retry", "w/1")).stdout).toBe("Put back 1 task.\n");
    const putBack = /^w\/1 .* queued .*put back; it failed with: no room$/m;
    for (const command of ["tasks", "resume"]) expect((await place.run(command)).stdout).toMatch(putBack);
    expect((await place.run("show", "w/1")).stdout).toMatch(
      /^status +queued\nput back +it failed with: Error: no room\nlabel /m,
    );
    expect(JSON.parse((await place.run("retry", "--prefix", "w/", "--json")).stdout)).toEqual({ retried: 1 });
    const refused = await place.run("retry", "w/3");
    expect([refused.code, refused.stderr]).toEqual([6, expect.stringContaining("is completed, and only failed tasks")]);
  });

  it("show who runs a task that was put back or failed, and not that it failed", async () => {
    const { manager, run } = await placeOf();
    await worked(manager, { "w/1": "fails", "w/2": "fails" });
    await manager.retry("w/1");
    expect((await run("tasks", "--watch")).stdout).toMatch(/^w\/1 +queued +put back; it failed with: no room /m);
    const leases = [await manager.lease("w/1"), await manager.lease("w/2")];
    const listed = (await run("tasks")).stdout;
    expect(listed).toMatch(/^w\/1 +\d+ +running .* running on \S+, process \d+$/m);
    expect(listed).toMatch(/^w\/2 +\d+ +running +Run failed in build .* running on \S+, process \d+$/m);
    expect((await run("resume")).stdout).toMatch(/^w\/2 .* running +running on \S+, process \d+$/m);
    expect((await run("show", "w/1")).stdout).toMatch(/^status +running\nrun by .*\nput back /m);
    expect((await run("show", "w/2")).stdout).toMatch(/^status +running\nrun by .*\nerror +Error: no room\n/m);
    const watched = (await run("tasks", "--watch")).stdout;
    expect(watched).toMatch(/^w\/1 +running +put back {2,}/m);
    expect(watched).toMatch(/^w\/2 +running +Run failed in build {2,}/m);
    for (const lease of leases) await lease.release();
    expect((await run("tasks")).stdout).toMatch(/^w\/2 +\d+ +failed +Run failed in build .* no room$/m);
  });

  it("say of a run within another one that no worker takes it", async () => {
    const { manager, run } = await placeOf();
    const outer = (taskId: string) =>
      manager.run(taskId, (its) =>
        its.step("sub", () =>
          manager.run(`${taskId}/sub`, (inner) => inner.step("build", () => Promise.reject(new Error("no room")))),
        ),
      );
    for (const taskId of ["p/1", "p/2"]) await expect(outer(taskId)).rejects.toThrow("no room");
    expect((await run("show", "p/1")).stdout).toMatch(/^retry +waymark retry p\/1$/m);
    expect((await run("show", "p/1/sub")).stdout).not.toMatch(/^retry /m);
    const reason = "began within another run: no worker takes a child run, only its parent run continues it.";
    expect((await run("retry", "p/1/sub")).stdout).toBe(
      `Put back 1 task. It ${reason} If the parent run also failed, put its task back as well.\n`,
    );
    expect((await run("retry", "--prefix", "p/")).stdout).toBe(`Put back 3 tasks. 1 of them ${reason}\n`);
    expect(await manager.queue({ prefix: "p/" })).toMatchObject({ tasks: 2 });
  });

  it("show how to answer a run within another one, and what continues it", async () => {
    const { manager, run } = await placeOf();
    const stop = new AbortController();
    const waits = told(manager);
    const running = manager.run(
      "p",
      (its) => its.step("sub", () => manager.run("p/sub", (inner) => inner.waitFor("approve"))),
      { signal: stop.signal },
    );
    await waits;
    stop.abort();
    await expect(running).rejects.toThrow();
    expect((await run("show", "p/sub")).stdout).toMatch(/^answer +waymark send --wait \w{8} p\/sub approve '…'$/m);
    expect((await run("tasks", "--prefix", "p/")).stdout).toMatch(
      / waits for "approve"; its parent run continues it$/m,
    );
    expect((await run("send", "p/sub", "approve")).stdout).toContain("The run waits for it and is due now; ");
    expect((await run("tasks", "--prefix", "p/")).stdout).toMatch(
      / "approve" is answered; its parent run continues it$/m,
    );
  });

  it("show the events of a task below the error that it failed with, or the reason", async () => {
    const { manager, run } = await placeOf();
    await worked(manager, { "w/1": "fails", "w/2": "waits" });
    for (const taskId of ["w/1", "w/2"]) await manager.send(taskId, "note");
    await manager.cancel("w/2", "too old");
    expect((await run("show", "w/1")).stdout).toMatch(/^error .*\nretry .*\nevents +note, /m);
    expect((await run("show", "w/2")).stdout).toMatch(/^reason .*\nevents +note, /m);
  });

  it("cancel all incomplete tasks of a prefix, without counting events or cancelled ones", async () => {
    const place = await placeOf();
    await worked(place.manager, { "w/1": "waits", "w/2": "waits", "w/3": "ends" });
    await place.manager.send("w/2", "note");
    await place.manager.cancel("w/1", "before");
    const asked = await place.run("cancel", "--prefix", "w/", "--reason", "x");
    expect([asked.code, asked.stderr]).toEqual([4, expect.stringContaining('Cancel 1 task that begins with "w/"')]);
    const done = await place.run("cancel", "--prefix", "w/", "--reason", "x", "--yes", "--json");
    expect(JSON.parse(done.stdout)).toEqual({ cancelled: 1 });
    expect((await place.run("cancel", "--prefix", "w/", "--reason", "x")).stdout).toBe("There is nothing to cancel.\n");
    expect((await place.manager.latest("w/1"))?.error?.message).toBe("before");
  });

  it("refuse threads of LangGraph, an empty prefix, and both a task and a prefix", async () => {
    const { cwd, manager, run } = await placeOf();
    await using saver = closing(
      new WaymarkSaver({ storage: openStorage("sqlite:checkpoints.db", { relativeTo: cwd }) }),
    );
    const config = { configurable: { thread_id: "letter", checkpoint_ns: "" } };
    await saver.put(config, emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
    await manager.save("langgraph/other/c/", 1);
    for (const [command, ...rest] of [["cancel", "--reason", "x", "--yes"], ["retry"]]) {
      const answer = async (...args: string[]) => {
        const { code, stderr } = await run(command ?? "", ...args, ...rest);
        return [code, stderr];
      };
      expect(await answer("letter")).toEqual([2, expect.stringContaining("belongs to a thread of LangGraph")]);
      if (command === "cancel") {
        expect(await answer("--prefix", "lang")).toEqual([2, expect.stringContaining("longer prefix")]);
      }
      expect(await answer("--prefix", "")).toEqual([2, expect.stringContaining("An empty prefix")]);
      expect(await answer("a", "--prefix", "b")).toEqual([2, expect.stringContaining("Pass one task, or --prefix")]);
      expect(await answer()).toEqual([2, expect.stringContaining("Pass one task, or --prefix")]);
    }
  });
});

describe("waymark enqueue", () => {
  it("saves a run once, with its input and its time", async () => {
    const { manager, run } = await placeOf();
    expect((await run("enqueue", "w/1", '{"to":"ada"}')).stdout).toBe('Task "w/1" is enqueued: a worker takes it.\n');
    expect((await run("enqueue", "w/1", '{"to":"ada"}')).stdout).toBe(
      'Task "w/1" was enqueued before with this input and is queued. Nothing was changed.\n',
    );
    const other = await run("enqueue", "w/1", '{"to":"bob"}');
    expect([other.code, other.stderr]).toEqual([6, expect.stringContaining("[RUN_MISMATCH]")]);
    expect(JSON.parse((await run("enqueue", "w/2", "--due-at", "2999-12-01T09:00Z", "--json")).stdout)).toEqual({
      taskId: "w/2",
      isNew: true,
    });
    expect((await run("resume")).stdout).toMatch(/^w\/2 .* waits until 2999-12-01 09:00:00 UTC$/m);
    const waits = /^status +scheduled\nwhy +waits until 2999-12-01 09:00:00 UTC\n/m;
    expect((await run("show", "w/2")).stdout).toMatch(waits);
    // Another process may have saved since, so a checkpoint that was named is shown as it was stored.
    expect((await run("show", "w/2", "@1")).stdout).toMatch(/^status +paused\nlabel/m);
    expect((await run("show", "w/1")).stdout).toMatch(
      /^status +queued\nwhy +due: a worker or the next run continues it\n/m,
    );
    expect((await runOf(manager, "w/1"))?.input).toEqual({ to: "ada" });
    expect(await manager.queue({ prefix: "w/" })).toMatchObject({ tasks: 1 });
    expect((await run("enqueue", "w/2")).stdout).toContain("and waits until 2999-12-01 09:00:00 UTC. Nothing");
    await manager.complete("w/1");
    expect((await run("enqueue", "w/1", '{"to":"ada"}')).stdout).toContain("and is completed. Nothing was changed.");
  });
});

describe("waymark work", () => {
  it("takes tasks, prints what happens to each, and is drained by SIGTERM", async () => {
    const place = await placeOf();
    await place.manager.enqueue("w/1");
    const { child, line, ended } = startWorker(place, WORKER);
    const [paused, completed] = [line(/^paused/), line(/^completed/)];
    expect(await paused).toBe('paused w/1: it waits for "approve"');
    await place.run("send", "w/1", "approve", "7");
    expect(await completed).toBe("completed w/1");
    child.kill("SIGTERM");
    expect(await ended).toEqual([null, "SIGTERM"]);
    expect((await runOf(place.manager, "w/1"))?.result).toBe(7);
  });

  it.each([
    ["export const run = 1;", [], /has no default export\. Write export default/],
    ["export default { concurency: 2, run() {} };", [], /has no "concurency"\. Known keys: prefix, concurrency, .*run/],
    ["export default { prefix: 'w/' };", [], /has no function run/],
    ["export default 5;", [], /isn't a worker: its default export must be a function, or an object with run\. Nothing/],
    ["export default { run() {} };", [], /No tasks are named\. Give --prefix mail\/, or export default { prefix: /],
    ["export default { prefix: 'w/', concurrency: 0, run() {} };", [], /WorkOptions\.concurrency must be/],
    ["export default () => 1;", ["--concurrency", "0"], /whole number from 1/],
  ])("refuses %s with %j", async (code, args, message) => {
    const place = await placeOf();
    mkdirSync(place.cwd, { recursive: true });
    writeFileSync(join(place.cwd, "worker.mjs"), code);
    const refused = await place.run("work", "--module", "worker.mjs", ...args);
    expect([refused.code, refused.stdout, refused.stderr]).toEqual([2, "", expect.stringMatching(message)]);
  });
});

it("waymark work names a misspelt option before the missing one", async () => {
  const { run } = await placeOf();
  const misspelt = await run("work", "--modul", "worker.js");
  expect([misspelt.code, misspelt.stderr]).toEqual([2, expect.stringMatching(/'--modul'.*Did you mean --module\?/)]);
  const missing = await run("work");
  expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining("'--module <file>' not specified")]);
});

/** Resolves once a run waits. */
function told(manager: Place["manager"]): Promise<unknown> {
  return new Promise((resolve) => manager.on("waitStarted", resolve));
}

function closing<Closed extends { close(): Promise<void> }>(closed: Closed): Closed & AsyncDisposable {
  return Object.assign(closed, { [Symbol.asyncDispose]: () => closed.close() });
}

it("resume and tasks --incomplete leave a run within another run to that one", async () => {
  const { manager, run } = await placeOf();
  const stopping = new AbortController();
  const inner = () => manager.run("t/in", (its) => its.step("long", () => stopping.abort()));
  const paused = manager.run("t", (its) => its.step("in", inner), { signal: stopping.signal });
  await expect(paused).rejects.toMatchObject({ code: "RUN_PAUSED" });
  expect((await manager.tasks()).map(({ taskId }) => taskId)).toEqual(["t", "t/in"]);
  for (const args of [["resume"], ["resume", "--limit", "1"], ["tasks", "--incomplete"]]) {
    const { stdout } = await run(...args);
    expect(stdout, args.join(" ")).toMatch(/^t /m);
    expect(stdout, args.join(" ")).not.toContain("t/in");
  }
});
