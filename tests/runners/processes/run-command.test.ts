import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { runCommand } from "waymark-runners/processes";
import { ProcessStartError } from "../../../runners/src/processes/command.js";
import { openSink } from "../../../runners/src/prp/output.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { stopTimeouts } from "../../support/stopped-clock.js";
import { tempFolder } from "../../support/temp-folder.js";
import { isAlive, LifeLine, run } from "./processes.js";

const noPython = process.platform !== "linux" || spawnSync("python3", ["-c", "import ctypes"]).status !== 0;
/** The process lives on in its second thread, as one does for a moment whose threads end one after another. */
const FIRST_THREAD_ENDS = `
import ctypes, os, threading, time
threading.Thread(target=lambda: time.sleep(1000)).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
`;

const SOURCE = { taskId: "t", kind: "gate", level: 1, stream: "stdout" } as const;

describe("starting a command", () => {
  it("fails without its folder or its shell, with a NUL, or if its input can't be written; nothing of it runs", async () => {
    const folder = await tempFolder();
    await writeFile(join(folder, "file"), "");
    await expect(run("true", { cwd: "/nowhere" }).result).rejects.toThrow(
      /could not be started: its folder \/nowhere can't be entered/,
    );
    await expect(run("true", { cwd: join(folder, "file") }).result).rejects.toThrow(
      /its working directory .*file is not a folder/,
    );
    await expect(run("true \0").result).rejects.toThrow(ProcessStartError);
    onTestFinished(() => void vi.unstubAllEnvs());
    vi.stubEnv("PATH", folder);
    await expect(run("true").result).rejects.toThrow(/could not be started: there is no bash in the folders of PATH/);
    vi.unstubAllEnvs();
    vi.stubEnv("TMPDIR", "/nowhere");
    await expect(run("true", { input: "x" }).result).rejects.toThrow(
      /could not be started: its input can't be written: .*nowhere/,
    );
  });

  it("passes the input on stdin, under any of its names, and leaves no file", async () => {
    const input = "€".repeat(500_000);
    const folder = await tempFolder();
    vi.stubEnv("TMPDIR", folder);
    onTestFinished(() => void vi.unstubAllEnvs());
    const stdout = async (command: string, options = {}) => (await run(command, options).result).stdout.trim();

    expect(await stdout("wc -c </dev/stdin", { input })).toBe("1500000");
    expect(await stdout("wc -c", { input })).toBe("1500000");
    expect((await run("true", { input }).result).exitCode).toBe(0);
    expect(await stdout("wc -c")).toBe("0");
    expect(await readdir(folder)).toEqual([]);
  });

  it("finds the project's installed commands", async () => {
    const folder = await tempFolder();
    await mkdir(join(folder, "packages/a"), { recursive: true });
    await mkdir(join(folder, "node_modules/.bin"), { recursive: true });
    await writeFile(join(folder, "node_modules/.bin/own-tool"), "#!/bin/sh\necho found\n", { mode: 0o755 });

    expect((await run("own-tool", { cwd: join(folder, "packages/a") }).result).stdout).toBe("found\n");
  });
});

describe("a command", () => {
  it("needs no options: sh runs it in the current folder, and its output is kept", async () => {
    expect(await runCommand({ command: "pwd; false; echo $0 >&2" })).toMatchObject({
      exitCode: 0,
      stdout: `${process.cwd()}\n`,
      stderr: "sh\n",
      timedOut: false,
      aborted: false,
    });
  });

  it("returns its exit code and both its streams", async () => {
    expect(await run("echo out; echo err >&2; exit 3").result).toEqual({
      exitCode: 3,
      signal: null,
      stdout: "out\n",
      stdoutEnd: expect.any(String),
      stderr: "err\n",
      timedOut: false,
      aborted: false,
    });
  });

  it("fails with its first failing line", async () => {
    const exitCode = async (command: string, shell: "sh" | "bash", strict = true) =>
      (await run(command, { shell, strict }).result).exitCode;

    expect(await exitCode("false\ntrue", "sh")).toBe(1);
    expect(await exitCode("false\ntrue", "bash")).toBe(1);
    expect(await exitCode("false\ntrue", "sh", false)).toBe(0);
  });

  it("reports which signal has ended it", async () => {
    const { exitCode, signal, stderr } = await run("echo -n last >&2; kill -SEGV $$").result;

    expect({ exitCode, signal, stderr }).toEqual({
      exitCode: null,
      signal: "SIGSEGV",
      stderr: "last\n[waymark: ended by SIGSEGV]\n",
    });
  });

  it("passes on the output while it runs, and keeps a bounded part", async () => {
    const fifo = join(await tempFolder(), "go");
    await run(`mkfifo ${fifo}`).result;
    const { stdout, result } = run(`echo early; cat ${fifo}; seq 1000000; echo late`);
    await stdout.until(/^early$/m);
    await writeFile(fifo, "go\n");
    const kept = (await result).stdout;

    expect(kept.length).toBeLessThan(1_100);
    expect(kept).toMatch(/^early\ngo\n1\n2\n[\s\S]*\n\[… 6,887,\d{3} bytes cut …\]\n[\s\S]*\n1000000\nlate\n$/);
  });

  it("returns the end of its stdout, however little is kept", async () => {
    const ran = await run("seq 1000; echo last", { maxOutputBytes: 0 }).result;

    expect(ran.stdout).toBe("\n[… 3,898 bytes cut …]\n");
    expect(ran.stdoutEnd).toMatch(/\]\n000\nlast\n$/);
  });

  it("is ended with its whole group at its timeout, even processes that ignore SIGTERM", async () => {
    const alive = await LifeLine.create();
    const command = `exec 9>${alive.path}; trap "" TERM; bash -c 'sleep 1000; sleep 1000' & echo ready; wait`;
    const timeouts = stopTimeouts();
    const { stdout, result } = run(command, { timeoutMs: 300, killGraceMs: 40 });
    await stdout.until(/ready/);
    timeouts.pass(300);

    const { exitCode, timedOut, stderr } = await result;
    expect({ exitCode, timedOut }).toEqual({ exitCode: null, timedOut: true });
    expect(stderr).toMatch(/\[waymark: timed out after 300 ms; its process group was killed\]\n$/);
    await alive.closed;
  });

  it("is ended with its whole group when the run is aborted", async () => {
    const alive = await LifeLine.create();
    const ending = new AbortController();
    const { stdout, result } = run(`exec 9>${alive.path}; sleep 1000 & echo ready; wait`, { signal: ending.signal });
    await stdout.until(/ready/);
    ending.abort();

    expect(await result).toMatchObject({ aborted: true, exitCode: null, stderr: "" });
    await alive.closed;
  });

  it("is aborted even if the abort comes while it is ended for its timeout", async () => {
    const cwd = await tempFolder();
    const ending = new AbortController();
    const command = "mkfifo pipe; trap 'echo ending; cat pipe; exit' TERM; sleep 1000 & echo ready; wait";
    const timeouts = stopTimeouts();
    const { stdout, result } = run(command, { cwd, timeoutMs: 200, killGraceMs: 60_000, signal: ending.signal });
    await stdout.until(/ready/);
    timeouts.pass(200);
    await stdout.until(/ending/);
    ending.abort();
    await writeFile(join(cwd, "pipe"), "");

    expect(await result).toMatchObject({ aborted: true, timedOut: true, exitCode: null });
    expect((await result).stderr).toMatch(/\[waymark: timed out after 200 ms/);
  });

  it("isn't run if the run was aborted before", async () => {
    expect(await run("sleep 1000", { signal: AbortSignal.abort() }).result).toMatchObject({ aborted: true });
  });

  it("ends the processes that it left behind, whether or not they hold its output", async () => {
    const holding = run("sleep 1000 & echo $!");
    const silent = run("sleep 1000 >/dev/null 2>&1 & echo $!");
    for (const { stdout, result } of [holding, silent]) {
      const { exitCode, stderr } = await result;
      expect(exitCode).toBe(0);
      expect(stderr).toMatch(/left processes behind in its group/);
      expect(isAlive(await stdout.until(/(\d+)/))).toBe(false);
    }
  });

  // Node can't end its first thread alone.
  it.skipIf(noPython)(
    `ends a process that it left behind whose first thread alone has ended${noPython ? " (skipped: no python3)" : ""}`,
    async () => {
      const program = join(await tempFolder(), "threads.py");
      await writeFile(program, FIRST_THREAD_ENDS);
      const { stdout, result } = run(
        `python3 ${program} & until grep -q ") Z" /proc/$!/stat; do sleep 0.01; done; echo $!`,
      );
      const pid = await stdout.until(/(\d+)/);
      expect((await result).stderr).toMatch(/left processes behind in its group/);
      expect(statesOf(pid).filter((state) => state !== "Z")).toEqual([]);
    },
  );

  it("has left nothing behind if its child ends right after it", async () => {
    const { exitCode, stderr, stdout } = await run("echo text > >(cat)").result;

    expect({ exitCode, stderr, stdout }).toEqual({ exitCode: 0, stderr: "", stdout: "text\n" });
  });

  it("doesn't hang on a process that left its group and holds its output", async () => {
    const { stdout, result } = run("setsid sleep 1000 & echo $!");
    const outsider = await stdout.until(/(\d+)/);
    const { exitCode, stderr } = await result;

    expect(exitCode).toBe(0);
    expect(stderr).toMatch(/outside its group/);
    expect(isAlive(outsider)).toBe(true);
    process.kill(Number(outsider));
  });
});

describe("the target of the output", () => {
  const text = async (stream: PassThrough) => Buffer.concat(await stream.toArray()).toString("utf8");

  it("is the given streams, which stay open", async () => {
    const stdout = new PassThrough();
    const listeners = stdout.listenerCount("error");
    for (const piece of ["one ", "two"]) {
      const sink = openSink({ stdout }, SOURCE, recordingLogger());
      void sink.write(Buffer.from(piece));
      sink.end();
    }

    expect(stdout.listenerCount("error")).toBe(listeners);
    stdout.end();
    expect(await text(stdout)).toBe("one two");
  });

  it("may be a function that gets whole characters, and whose errors stop nothing", () => {
    const logger = recordingLogger();
    const got: string[] = [];
    const sink = openSink(
      (piece, source) => got.push(`${source.kind} ${source.level} ${source.stream}: ${piece}`),
      SOURCE,
      logger,
    );
    const bytes = Buffer.from("a€");
    for (const byte of bytes) void sink.write(Buffer.of(byte));
    void sink.write(bytes.subarray(1, 3));
    sink.end();
    const throwing = openSink(
      () => {
        throw new Error("no");
      },
      SOURCE,
      logger,
    );
    void throwing.write(bytes);
    void throwing.write(bytes);

    expect(got).toEqual(["gate 1 stdout: a", "gate 1 stdout: €", "gate 1 stdout: \uFFFD"]);
    expect(logger.lines.map(({ level }) => level)).toEqual(["error"]);
  });

  it("is waited for if it is slow, and loses nothing", async () => {
    const pieces: Buffer[] = [];
    const slow = new Writable({
      highWaterMark: 1,
      write(chunk: Buffer, _encoding, done) {
        pieces.push(chunk);
        setImmediate(done);
      },
    });
    const sink = openSink({ stdout: slow }, SOURCE, recordingLogger());
    await run("seq 200000", { stdout: sink, maxOutputBytes: 0 }).result;
    slow.end();
    await new Promise((resolve) => slow.once("close", resolve));

    expect(Buffer.concat(pieces).toString("utf8").trimEnd().split("\n")).toHaveLength(200_000);
  });

  it("may break or close in the middle: the command continues, and its output is kept", async () => {
    const logger = recordingLogger();
    const broken = new Writable({
      highWaterMark: 1,
      write: (_chunk, _encoding, done) => done(Object.assign(new Error("write EPIPE"), { code: "EPIPE" })),
    });
    const closing: Writable = new Writable({ highWaterMark: 1, write: () => closing.destroy() });
    for (const stdout of [broken, closing]) {
      const sink = openSink({ stdout }, SOURCE, logger);
      const { exitCode, stdout: kept } = await run("seq 100000; echo end", { stdout: sink }).result;
      expect(exitCode).toBe(0);
      expect(kept).toMatch(/end\n$/);
    }

    expect(logger.lines.map(({ level }) => level)).toEqual(["warn"]);
  });
});

/** The states of a process's threads, as Linux's /proc has them; none once it is gone. */
function statesOf(pid: string): string[] {
  try {
    const tasks = readdirSync(`/proc/${pid}/task`);
    return tasks.map((task) => readFileSync(`/proc/${pid}/task/${task}/stat`, "utf8").split(") ")[1]?.[0] ?? "");
  } catch {
    return [];
  }
}
