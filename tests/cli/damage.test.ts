// Commands distinguish damaged checkpoints from intact ones, and can remove them on purpose.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { newPlace, recordsOf } from "./waymark.js";

/** A task of three checkpoints, each of them changed as the test says. */
async function damagedPlace(change: (text: string, n: number) => string) {
  const place = await newPlace("files:store");
  for (let n = 1; n <= 3; n++) await place.manager.save("t", { n, filler: "abc" });
  await place.manager.close();
  const folder = join(place.cwd, "store", "t");
  const names = readdirSync(folder)
    .filter((name) => name.startsWith("0"))
    .sort();
  names.forEach((name, index) => {
    const path = join(folder, name);
    writeFileSync(path, change(readFileSync(path, "utf8"), index + 1));
  });
  return place;
}

/** The second file is none, and the third one's state, at its end, isn't what was saved. */
const halfDamaged = (text: string, n: number) => (n === 2 ? "{" : n === 3 ? text.replace(/^(.*)abc/s, "$1abd") : text);

describe("waymark delete", () => {
  it("asks about a damaged checkpoint as such, and removes it on purpose", async () => {
    const { cwd, run } = await damagedPlace(halfDamaged);
    const asked = await run("delete", "t", "@2");
    expect(asked.code).toBe(4);
    expect(asked.stderr).toMatch(
      /^waymark: Remove damaged checkpoint @2 \(.*store\/t\/000000000002-.*\), .*, of task "t" from/,
    );
    expect((await run("delete", "t", "@3")).stderr).toMatch(/Remove damaged checkpoint @3 .*checksum/);
    expect(await run("delete", "t", "@2", "--yes")).toEqual({
      code: 0,
      stdout: "Removed 1 checkpoint, 1 of them damaged.\n",
      stderr: "",
    });
    expect((await run("delete", "t", "@3", "--yes", "--json")).stdout).toBe('{"removed":1,"damaged":1}\n');
    expect(await recordsOf(cwd, "files:store")).toMatchObject([{ sequence: 1 }]);
  });

  it("says how much of a task is damaged, and removes all of it", async () => {
    const { run } = await damagedPlace(halfDamaged);
    expect((await run("delete", "t")).stderr).toMatch(
      /Remove task "t" with 3 checkpoints \(.*; 2 of them damaged\) from/,
    );
    expect((await run("delete", "t", "--yes")).stdout).toBe("Removed 3 checkpoints, 2 of them damaged.\n");
    const whole = await damagedPlace(() => "{");
    expect((await whole.run("delete", "t", "--yes", "--json")).stdout).toBe('{"removed":3,"damaged":3}\n');
    expect((await whole.run("delete", "t", "--yes")).code).toBe(3);
  });

  it("finds intact checkpoints beside one that lost its id, and says that this one can't be removed alone", async () => {
    const { cwd, run, manager } = await newPlace("tasks:store");
    for (let n = 1; n <= 3; n++) await manager.save("t", n);
    await manager.close();
    const path = join(cwd, "store", "t", "checkpoints.json");
    const lines = readFileSync(path, "utf8").split("\n");
    writeFileSync(path, lines.with(2, `oh no ${"#".repeat(9)}`).join("\n"));
    expect((await run("show", "t", "@3", "--state")).stdout).toBe("3\n");
    const refused = await run("delete", "t", "@2", "--yes");
    expect([refused.code, refused.stdout]).toEqual([5, ""]);
    expect(refused.stderr).toMatch(/@2 .* not be removed alone: .*checkpoints\.json \(line 3\).*remove the whole task/);
    expect((await run("delete", "t", "@3", "--yes")).stdout).toBe("Removed 1 checkpoint.\n");
  });
});

describe("waymark copy", () => {
  it.each(["files:to", "sqlite:to.db"])(
    "into %s tells how many could not be read, and doesn't say that all are identical",
    async (to) => {
      const { cwd, run } = await damagedPlace(halfDamaged);
      const { code, stdout, stderr } = await run("copy", "--to", to);
      expect([code, stdout]).toEqual([
        5,
        `Copied 1 checkpoint to ${to}.\n1 of 3 identical; 2 can't be read, and were not copied\n`,
      ]);
      expect(stderr.match(/skipped a damaged record/g)).toHaveLength(2);
      expect(await recordsOf(cwd, to)).toMatchObject([{ sequence: 1 }]);
      expect(JSON.parse((await run("copy", "--to", to, "--json")).stdout)).toEqual({
        records: 3,
        identical: 1,
        copied: 0,
        extra: 0,
        unreadable: 2,
      });
    },
  );

  it("also says so if nothing of a task can be read", async () => {
    const { run } = await damagedPlace(() => "{");
    const { code, stdout } = await run("copy", "--to", "files:to");
    expect([code, stdout]).toEqual([5, expect.stringContaining("0 of 3 identical; 3 can't be read")]);
  });
});
