import { mkdir, readdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { ProcessStartError } from "../../../systems/processes/held-process.js";
import { type GroupIdentity, isGroupGoneWithin, isRunning } from "../../../systems/processes/process-group.js";
import { findProcess } from "../../../systems/processes/process-table.js";
import { openSink } from "../../../systems/prp/output.js";
import { bundled } from "../../support/bundled.mjs";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";
import { identify, isAlive, running, start } from "./processes.js";

const HOLDER = fileURLToPath(await bundled("tests/fixtures/processes/hold-process.mjs"));
const SOURCE = { taskId: "t", kind: "gate", level: 1, stream: "stdout" } as const;

describe("a held process", () => {
  it("does nothing before it is let go, and nothing at all when it is given up", async () => {
    const folder = await tempFolder();
    const held = await start("touch here", { cwd: folder });
    const entry = await identify(String(held.identity.pid));

    await held.abandon();

    expect(entry.startTime).toBe(held.identity.startTime);
    expect(await isRunning(held.identity)).toBe(false);
    expect(await readdir(folder)).toEqual([]);
  });

  it("keeps its pid when it becomes the command, leads its group, and finds its mark in its environment", async () => {
    const held = await start('echo "$$ $WAYMARK_PROCESS"');
    const { pid, group, token } = held.identity;

    expect(await findProcess(pid)).toMatchObject({ pid, group });
    expect((await running(held).result).stdout).toBe(`${pid} ${token}\n`);
  });

  it("ends by itself, with nothing done, when the process that holds it is killed", async () => {
    const folder = await tempFolder();
    const holder = execa(process.execPath, [HOLDER, folder], { reject: false, lines: true });
    const { value } = await holder.iterable().next();
    const { group }: GroupIdentity = JSON.parse(String(value));
    holder.kill("SIGKILL");
    await holder;

    expect(await isGroupGoneWithin(group, 30_000)).toBe(true);
    expect(await readdir(folder)).toEqual([]);
  });

  it("can't be started without its folder or its shell, with a NUL, or if its input can't be written", async () => {
    const folder = await tempFolder();
    await writeFile(join(folder, "file"), "");
    await expect(start("true", { cwd: "/nowhere" })).rejects.toThrow(/could not be started: its folder \/nowhere /);
    await expect(start("true", { cwd: join(folder, "file") })).rejects.toThrow(/file, .* is not a folder/);
    await expect(start("true \0")).rejects.toThrow(ProcessStartError);
    vi.stubEnv("PATH", folder);
    await expect(start("true")).rejects.toThrow(/could not be started: there is no bash in the folders of PATH/);
    vi.unstubAllEnvs();
    vi.stubEnv("TMPDIR", "/nowhere");
    onTestFinished(() => void vi.unstubAllEnvs());
    await expect(start("true", { input: "x" })).rejects.toThrow(
      /could not be started: its input can't be written: .*nowhere/,
    );
  });

  it("reads its input from stdin to its end, by whatever name, and leaves no file of it", async () => {
    const input = "€".repeat(500_000);
    const before = (await readdir(tmpdir())).filter((name) => name.startsWith("waymark-input-"));

    expect((await running(await start("wc -c </dev/stdin", { input })).result).stdout.trim()).toBe("1500000");
    expect((await running(await start("wc -c", { input })).result).stdout.trim()).toBe("1500000");
    expect((await running(await start("true", { input })).result).exitCode).toBe(0);
    expect((await running(await start("wc -c")).result).stdout.trim()).toBe("0");
    expect((await readdir(tmpdir())).filter((name) => name.startsWith("waymark-input-"))).toEqual(before);
  });

  it("finds what the project has installed", async () => {
    const folder = await tempFolder();
    await mkdir(join(folder, "node_modules/.bin"), { recursive: true });
    await writeFile(join(folder, "node_modules/.bin/own-tool"), "#!/bin/sh\necho found\n", { mode: 0o755 });

    expect((await running(await start("own-tool", { cwd: folder })).result).stdout).toBe("found\n");
  });
});

describe("a command", () => {
  it("gives its exit code and both its streams", async () => {
    expect(await running(await start("echo out; echo err >&2; exit 3")).result).toEqual({
      exitCode: 3,
      signal: null,
      stdout: "out\n",
      stdoutEnd: "",
      stderr: "err\n",
      timedOut: false,
      aborted: false,
    });
  });

  it("fails with its first failing line, and under bash in the middle of a pipe", async () => {
    const exitCode = async (command: string, shell: "sh" | "bash", strict = true) =>
      (await running(await start(command, { shell, strict })).result).exitCode;

    expect(await exitCode("false\ntrue", "sh")).toBe(1);
    expect(await exitCode("false\ntrue", "bash")).toBe(1);
    expect(await exitCode("false | cat\ntrue", "bash")).toBe(1);
    expect(await exitCode("false\ntrue", "sh", false)).toBe(0);
  });

  it("says which signal has ended it", async () => {
    const { exitCode, stderr } = await running(await start("echo -n last >&2; kill -SEGV $$")).result;

    expect({ exitCode, stderr }).toEqual({ exitCode: null, stderr: "last\n[waymark: ended by SIGSEGV]\n" });
  });

  it("shows its output while it runs, and keeps it bounded", async () => {
    const fifo = join(await tempFolder(), "go");
    await running(await start(`mkfifo ${fifo}`)).result;
    const { stdout, result } = running(await start(`echo early; cat ${fifo}; seq 1000000; echo late`));
    await stdout.until(/^early$/m);
    await writeFile(fifo, "go\n");
    const kept = (await result).stdout;

    expect(kept.length).toBeLessThan(1_100);
    expect(kept).toMatch(/^early\ngo\n1\n2\n[\s\S]*\n\[… 6,887,\d{3} bytes cut …\]\n[\s\S]*\n1000000\nlate\n$/);
  });

  it("gives the end of its stdout, however little is kept", async () => {
    const ran = await running(await start("seq 1000; echo last"), { maxOutputBytes: 0, endBytes: 9 }).result;

    expect(ran.stdout).toBe("\n[… 3,898 bytes cut …]\n");
    expect(ran.stdoutEnd).toMatch(/\]\n000\nlast\n$/);
  });

  it("is ended with its whole group at its timeout, those that ignore SIGTERM too", async () => {
    const held = await start(`trap "" TERM; bash -c 'echo "grandchild $$"; sleep 1000' & wait`);
    const { stdout, result } = running(held, { timeoutMs: 2_500, killGraceMs: 50 });
    const grandchild = await identify(await stdout.until(/grandchild (\d+)/));

    const { exitCode, timedOut, stderr } = await result;
    expect({ exitCode, timedOut }).toEqual({ exitCode: null, timedOut: true });
    expect(stderr).toMatch(/\[waymark: timed out after 2500 ms; its process group was ended\]\n$/);
    expect(await isRunning(grandchild)).toBe(false);
    expect(await isRunning(held.identity)).toBe(false);
  });

  it("is ended with its whole group when the run is aborted", async () => {
    const run = new AbortController();
    const { stdout, result } = running(await start("sleep 1000 & echo $!; wait"), { signal: run.signal });
    const grandchild = await identify(await stdout.until(/(\d+)/));
    run.abort();

    expect(await result).toMatchObject({ aborted: true, exitCode: null, stderr: "" });
    expect(await isRunning(grandchild)).toBe(false);
  });

  it.each([
    ["itself", "trap 'echo ending; cat pipe; exit' TERM; echo begun; sleep 1000 & wait"],
    ["what it left behind", "(trap 'echo ending; cat pipe; exit' TERM; echo begun; sleep 1000 & wait) & wait"],
  ])("is aborted, too, where that comes while it is ended for its timeout: %s", async (_what, command) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const cwd = await tempFolder();
    const run = new AbortController();
    const held = await start(`mkfifo pipe; ${command}`, { cwd });
    const { stdout, result } = running(held, { timeoutMs: 90_000, killGraceMs: 60_000, signal: run.signal });
    await stdout.until(/begun/);
    vi.advanceTimersByTime(90_000);
    await stdout.until(/ending/);
    run.abort();
    await writeFile(join(cwd, "pipe"), "");

    expect(await result).toMatchObject({ aborted: true, timedOut: true, exitCode: null });
    expect((await result).stderr).toMatch(/\[waymark: timed out after 90000 ms/);
  });

  it("is ended at once where the run was aborted before", async () => {
    expect(await running(await start("sleep 1000"), { signal: AbortSignal.abort() }).result).toMatchObject({
      aborted: true,
    });
  });

  it("takes what it left behind with it, whether that holds its output or not", async () => {
    const holding = running(await start("sleep 1000 & echo $!"));
    const silent = running(await start("sleep 1000 >/dev/null 2>&1 & echo $!"));
    const left = [await holding.stdout.until(/(\d+)/), await silent.stdout.until(/(\d+)/)];

    for (const { result } of [holding, silent]) {
      const { exitCode, stderr } = await result;
      expect(exitCode).toBe(0);
      expect(stderr).toMatch(/left processes behind in its group/);
    }
    for (const pid of left) expect(await isAlive(pid)).toBe(false);
  });

  it("doesn't hang on a process that left its group and holds its output", async () => {
    const { stdout, result } = running(await start("setsid sleep 1000 & echo $!"));
    const outsider = await identify(await stdout.until(/(\d+)/));
    const { exitCode, stderr } = await result;

    expect(exitCode).toBe(0);
    expect(stderr).toMatch(/outside its group/);
    expect(await isRunning(outsider)).toBe(true);
    process.kill(outsider.pid);
  });
});

describe("where output goes", () => {
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

  it("is a function that gets whole characters, and whose errors stop nothing", () => {
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

  it("is waited for where it is slow, and loses nothing", async () => {
    const pieces: Buffer[] = [];
    const slow = new Writable({
      highWaterMark: 1,
      write(chunk: Buffer, _encoding, done) {
        pieces.push(chunk);
        setImmediate(done);
      },
    });
    const sink = openSink({ stdout: slow }, SOURCE, recordingLogger());
    await running(await start("seq 200000"), { stdout: sink, maxOutputBytes: 0 }).result;
    slow.end();
    await new Promise((resolve) => slow.once("close", resolve));

    expect(Buffer.concat(pieces).toString("utf8").trimEnd().split("\n")).toHaveLength(200_000);
  });

  it("may break or close in the middle: the command goes on, and its output is kept", async () => {
    const logger = recordingLogger();
    const broken = new Writable({
      highWaterMark: 1,
      write: (_chunk, _encoding, done) => done(Object.assign(new Error("write EPIPE"), { code: "EPIPE" })),
    });
    const closing: Writable = new Writable({ highWaterMark: 1, write: () => closing.destroy() });
    for (const stdout of [broken, closing]) {
      const sink = openSink({ stdout }, SOURCE, logger);
      const { exitCode, stdout: kept } = await running(await start("seq 100000; echo end"), { stdout: sink }).result;
      expect(exitCode).toBe(0);
      expect(kept).toMatch(/end\n$/);
    }

    expect(logger.lines.map(({ level }) => level)).toEqual(["warn"]);
  });
});
