// Tests that stats and prune show the bytes that a storage takes on the disk, and the bytes of its states.
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { newPlace } from "./waymark.js";

const TOTAL = /, ([\d.]+) (KiB|MiB) of states; the storage takes ([\d.]+) (KiB|MiB) on the disk\n$/;
const UNITS: Readonly<Record<string, number>> = { KiB: 1024, MiB: 1024 ** 2 };

function totalIn(stdout: string) {
  const [, states, statesUnit, disk, diskUnit] = TOTAL.exec(stdout) ?? [];
  return { states: Number(states) * UNITS[statesUnit!]!, disk: Number(disk) * UNITS[diskUnit!]! };
}

it("stats doesn't confuse the bytes of a long history's states with those of its database", async () => {
  const { cwd, manager, run } = await newPlace();
  const messages: string[] = [];
  for (let turn = 1; turn <= 150; turn++) {
    messages.push(`turn ${turn}: ${"word ".repeat(50)}${turn * 7919}`);
    await manager.save("agent", { messages });
  }
  await manager.close();
  const { states, disk } = totalIn((await run("stats")).stdout);
  expect(states).toBeGreaterThan(2 * 1024 ** 2);
  expect(disk).toBeLessThan(states / 10);
  expect(Math.abs(disk - statSync(join(cwd, "checkpoints.db")).size)).toBeLessThan(1024);

  const dryRun = await run("prune", "agent", "--keep-last", "1", "--dry-run");
  expect(dryRun.stdout).toMatch(
    /^149 checkpoints \(.* MiB\) would go, .*\nThese are bytes of whole states\. The storage takes [\d.]+ KiB on the disk: it stores\nonly changes\. So it isn't known beforehand how much a removal frees\.\nLater saves use the freed space; only VACUUM makes the file smaller\.\n$/m,
  );
  const none = await run("prune", "agent", "--keep-last", "500", "--dry-run");
  expect(none.stdout).toMatch(/0 checkpoints .* would go, 150 checkpoints .* stay\.\n$/);
});

it.each([
  ["files:.", 10],
  ["tasks:.", 1],
])(
  "of %s, stats counts the files of records, but no other files beside them; prune says what it would free",
  async (url, files) => {
    const { cwd, manager, run } = await newPlace(url);
    for (let n = 1; n <= 10; n++) await manager.save("build-42", "x".repeat(10_000));
    await manager.close();
    mkdirSync(join(cwd, "node_modules"));
    for (const place of [cwd, join(cwd, "build-42"), join(cwd, "node_modules")]) {
      writeFileSync(join(place, "other.json"), "y".repeat(1024 ** 2));
    }
    expect(
      readdirSync(join(cwd, "build-42")).filter((name) => name !== "other.json" && !name.startsWith(".")),
    ).toHaveLength(files);
    const { states, disk } = totalIn((await run("stats")).stdout);
    expect(disk).toBeGreaterThan(states);
    expect(disk).toBeLessThan(3 * states);
    const { stdout } = await run("prune", "build-42", "--keep-last", "1", "--dry-run");
    expect(stdout).toMatch(/\nThat frees at least 87\.9 KiB of [\d.]+ KiB on the disk\.\n$/);
  },
);
