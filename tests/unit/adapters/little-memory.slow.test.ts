// Tests processes whose heap is too small for everything that they read or save at once.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { expect, it } from "vitest";
import { tempFolder } from "../../support/temp-folder.js";
import { newStore } from "./sqlite/support.js";

const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/${name}`, import.meta.url));

it("saves are freed from memory once they are stored, even if the program awaits none of them", async () => {
  const { path } = await newStore();
  // All states at once would take more memory than this.
  const args = ["--max-old-space-size=48", fixture("save-without-awaiting.mjs"), `sqlite:${path}`, "1500"];
  expect((await execa(process.execPath, args)).stdout).toBe("1500");
});

it("a task's history in files needs memory for a few checkpoints, however many there are", async () => {
  const args = ["--max-old-space-size=24", fixture("read-history.mjs"), await tempFolder(), "30", "300000"];
  const read = (...how: string[]) => spawnSync(process.execPath, [...args, ...how], { encoding: "utf8" });
  expect(read()).toMatchObject({ status: 0, stdout: "30" });
  // If the program holds all states, they don't fit into its memory.
  const held = read("hold");
  expect(held.stderr).toContain("heap out of memory");
  expect(held.stdout).toBe("");
});
