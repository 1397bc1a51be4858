import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { openStorage } from "waymark/adapters";
import { holderHasEnded, ownHolder, parseHolder, processHasEnded } from "../../../src/contract/holder.js";
import { newSchema } from "../../support/postgres.js";
import { tempFolder } from "../../support/temp-folder.js";

const LONG_MS = 600_000;
const isLinux = process.platform === "linux";

/** A program that claims task `t` of the storage in its argument, prints the claim, and waits. */
const HOLDER = `
  import { ownHolder } from "waymark/adapter";
  import { openStorage } from "waymark/adapters";
  const { leases } = openStorage(process.argv[1]);
  console.log(JSON.stringify(await leases.claim("t", process.argv[2] ?? ownHolder(), ${LONG_MS})));
  setInterval(() => undefined, ${LONG_MS});
`;

/** Starts a process that holds a lease on task `t`. */
async function startHolder(url: string, ...holder: string[]) {
  const child = spawn(process.execPath, ["--input-type=module", "-e", HOLDER, url, ...holder], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return { child, lease: JSON.parse(await firstLine(child)) };
}

async function firstLine({ stdout }: ChildProcess): Promise<string> {
  if (stdout === null) throw new Error("The process has no standard output.");
  const [line] = await once(createInterface(stdout), "line");
  return line;
}

async function killed(child: ChildProcess): Promise<void> {
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

async function newStorage(form: string) {
  const url = `${form}:${await tempFolder()}/store`;
  const storage = openStorage(url);
  onTestFinished(() => storage.close());
  if (storage.leases === undefined) throw new Error("The storage has no leases.");
  return { url, leases: storage.leases };
}

describe.runIf(isLinux).each(["files", "tasks", "sqlite"])(
  "the lease of a process on %s (skipped without /proc)",
  (form) => {
    it("is free at once after the process was killed, under a higher token", async () => {
      const { url, leases } = await newStorage(form);
      const { child, lease } = await startHolder(url);
      expect(await leases.claim("t", "next", LONG_MS)).toMatchObject({ isGranted: false, holder: lease.holder });
      await killed(child);

      expect(await leases.current("t")).toBeUndefined();
      for await (const held of leases.held()) expect.unreachable(held.taskId);
      expect(await leases.lapsed("t")).toMatchObject({ holder: lease.holder, token: 1, hasDied: true });
      expect(await leases.claim("t", "next", LONG_MS)).toMatchObject({ isGranted: true, token: 2 });
      expect(await leases.renew("t", 1, LONG_MS)).toBe(false);
    });

    it("stays held while the process is stopped", async () => {
      const { url, leases } = await newStorage(form);
      const { child, lease } = await startHolder(url);
      child.kill("SIGSTOP");
      expect(await leases.current("t")).toMatchObject({ holder: lease.holder });
      expect(await leases.claim("t", "next", LONG_MS)).toMatchObject({ isGranted: false });
    });

    it("stays held after a kill, until it expires, if the program chose the holder's name", async () => {
      const { url, leases } = await newStorage(form);
      const { child } = await startHolder(url, "worker-1");
      await killed(child);
      expect(await leases.claim("t", "next", LONG_MS)).toMatchObject({ isGranted: false, holder: "worker-1" });
    });
  },
);

it.runIf(isLinux)(
  "a claim on PostgreSQL takes the lease of a process of this machine that was killed (skipped without /proc)",
  async () => {
    const { url, schema } = await newSchema();
    const place = `${url}?schema=${schema}`;
    const storage = openStorage(place);
    onTestFinished(() => storage.close());
    const { child, lease } = await startHolder(place);
    expect(await storage.leases?.claim("t", "next", LONG_MS)).toMatchObject({ isGranted: false, holder: lease.holder });
    await killed(child);
    expect(await storage.leases?.claim("t", "next", LONG_MS)).toMatchObject({ isGranted: true, token: 2 });
    expect(await storage.leases?.renew("t", 1, LONG_MS)).toBe(false);
  },
);

describe.runIf(isLinux)("a holder that Waymark made (skipped without /proc)", () => {
  it("names its host and its process", () => {
    expect(parseHolder(ownHolder())).toMatchObject({ pid: process.pid });
    expect(parseHolder("worker-1")).toBeUndefined();
    expect(parseHolder("build-box:3417:0123abcd")).toEqual({ host: "build-box", pid: 3417 });
    expect(parseHolder("a:b:3417:12-0123456789ab-0123abcd")).toEqual({ host: "a:b", pid: 3417 });
  });

  it("hasn't ended while its process lives, and other programs' holders never count as ended", () => {
    const [, start = "", machine = ""] = /:(\d+)-([0-9a-f]{12})-/.exec(ownHolder()) ?? [];
    const holder = (pid: number, its: { start?: string; machine?: string }) =>
      `host:${pid}:${its.start ?? start}-${its.machine ?? machine}-0123abcd`;
    expect(holderHasEnded(ownHolder())).toBe(false);
    expect(holderHasEnded(holder(process.pid, {}))).toBe(false);
    // Another process has this id now.
    expect(holderHasEnded(holder(process.pid, { start: `${Number(start) - 1}` }))).toBe(true);
    // The holder belongs to another machine, another boot or another container.
    expect(holderHasEnded(holder(process.pid, { start: "1", machine: "000000000000" }))).toBe(false);
    expect(holderHasEnded(`host:${2 ** 22 + 1}:0123abcd`)).toBe(false);
  });

  it("has ended as soon as its process is a zombie, which its parent has not reaped", async () => {
    const parent = spawn("sh", ["-c", "sleep 600 & echo $!; wait"], { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void parent.kill("SIGKILL"));
    const pid = Number(await firstLine(parent));
    expect(processHasEnded(pid)).toBe(false);
    parent.kill("SIGSTOP");
    process.kill(pid, "SIGKILL");
    while (!processHasEnded(pid)) await nextTurn();
    // The zombie's entry still exists.
    expect(() => process.kill(pid, 0)).not.toThrow();
  });

  it.runIf(process.getuid?.() !== 0)("is alive if its process belongs to another user (skipped as root)", () => {
    expect(processHasEnded(1)).toBe(false);
  });
});
