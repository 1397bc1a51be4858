import { describe, expect, it, onTestFinished } from "vitest";
import {
  endOrphanedGroup,
  isGroupGoneWithin,
  isRunning,
  ownIdentity,
  signalGroup,
} from "../../../systems/processes/process-group.js";
import { findProcess, listFromPs, listProcesses, parsePs } from "../../../systems/processes/process-table.js";
import { tempFolder } from "../../support/temp-folder.js";
import { identify, running, start } from "./processes.js";

/** A group whose leader is gone, as a killed one leaves it: only what the leader started is running. */
async function leaderlessGroup(command: string) {
  const held = await start(`${command} & echo "left $!"; read -r _ < <(sleep 1000)`);
  const { stdout, result } = running(held);
  const left = await identify(await stdout.until(/left (\d+)/));
  process.kill(held.identity.pid, "SIGKILL");
  await held.ended;
  onTestFinished(async () => {
    signalGroup(held.identity.group, "SIGKILL");
    await result;
  });
  return { identity: held.identity, left };
}

describe("the process table", () => {
  it("tells a process by its start time, and one that has ended from both", async () => {
    const own = await ownIdentity();

    expect(await isRunning(own)).toBe(true);
    expect(await isRunning({ ...own, startTime: `${own.startTime}0` })).toBe(false);
    expect(await isRunning({ pid: 2 ** 22 + 1, startTime: own.startTime })).toBe(false);
  });

  it("reads names with brackets and blanks in them", async () => {
    const cwd = await tempFolder();
    const { stdout, result } = running(
      await start('cp "$(command -v sleep)" ") Z 1 ("; "./) Z 1 (" 1000 & echo $!; wait', { cwd }),
    );
    const pid = Number(await stdout.until(/(\d+)/));

    expect(await findProcess(pid)).toMatchObject({ pid, zombie: false });
    process.kill(pid);
    await result;
  });

  it("reads what ps says, which is for other systems", () => {
    const recorded = [
      "    1     1 Ss   Fri Nov 21 22:29:07 2026",
      "  412   412 Z+   Sat Nov  1 00:11:27 2026",
      "70122   412 R    Sat Nov 22 00:11:27 2026",
      "",
    ];

    expect(parsePs(recorded.join("\n"))).toEqual([
      { pid: 1, group: 1, zombie: false, startTime: "Fri Nov 21 22:29:07 2026" },
      { pid: 412, group: 412, zombie: true, startTime: "Sat Nov 1 00:11:27 2026" },
      { pid: 70122, group: 412, zombie: false, startTime: "Sat Nov 22 00:11:27 2026" },
    ]);
  });

  it("finds a held process and its group by ps", async ({ skip }) => {
    skip(process.platform === "linux", "Linux has /proc, and need not have a ps that takes these options");
    const held = await start("true");
    const { pid } = held.identity;
    const byPs = (await listFromPs()).find((entry) => entry.pid === pid);
    await held.abandon();

    expect(byPs).toMatchObject({ pid, group: pid, zombie: false });
    expect(byPs?.startTime).toMatch(/^\w{3} \w{3} \d+ \d\d:\d\d:\d\d \d{4}$/);
  });

  it("lists a held process and its group", async () => {
    const held = await start("true");
    const { pid } = held.identity;
    const listed = (await listProcesses()).find((entry) => entry.pid === pid);
    await held.abandon();

    expect(listed).toMatchObject({ pid, group: pid, zombie: false });
  });
});

describe("an orphaned group", () => {
  it("is ended with all its processes", async () => {
    const held = await start("sleep 1000 & echo $!; wait");
    const { stdout, result } = running(held);
    const grandchild = await identify(await stdout.until(/(\d+)/));

    expect(await endOrphanedGroup(held.identity, 5_000)).toBe(true);
    expect(await isRunning(held.identity)).toBe(false);
    expect(await isRunning(grandchild)).toBe(false);
    expect(await endOrphanedGroup(held.identity, 5_000)).toBe(false);
    await result;
  });

  it("is ended with SIGKILL where it ignores SIGTERM", async () => {
    const held = await start(`trap "" TERM; echo ready; sleep 1000; sleep 1000`);
    const { stdout, result } = running(held);
    await stdout.until(/ready/);

    expect(await endOrphanedGroup(held.identity, 50)).toBe(true);
    expect(await isRunning(held.identity)).toBe(false);
    await result;
  });

  it("is left alone where it is another one of the same number", async () => {
    const held = await start("sleep 1000");
    const { identity } = held;

    expect(await endOrphanedGroup({ ...identity, startTime: "another" }, 5_000)).toBe(false);
    expect(await endOrphanedGroup({ ...identity, group: 1, pid: 1 }, 5_000)).toBe(false);
    expect(await endOrphanedGroup({ ...identity, group: process.pid }, 5_000)).toBe(false);
    expect(await isRunning(identity)).toBe(true);
    await held.abandon();
  });

  it("is known by its mark where its leader is gone", async () => {
    const { identity, left } = await leaderlessGroup("sleep 1000");

    expect(await endOrphanedGroup({ ...identity, token: "another" }, 5_000)).toBe(false);
    expect(await isRunning(left)).toBe(true);
    expect(await endOrphanedGroup(identity, 5_000)).toBe(true);
    expect(await isRunning(left)).toBe(false);
  });

  it("doesn't count those that have ended and were not collected", async () => {
    // The shell that would collect them is stopped.
    const held = await start("sleep 1000 & echo $!; kill -STOP $$");
    const { stdout, result } = running(held);
    const child = await identify(await stdout.until(/(\d+)/));
    process.kill(child.pid, "SIGKILL");
    expect(await isGroupGoneWithin(held.identity.group, 0)).toBe(false);

    expect(await endOrphanedGroup(held.identity, 10)).toBe(true);
    await result;
  });
});
