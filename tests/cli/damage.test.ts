// Commands distinguish damaged checkpoints from intact ones, and can remove them on purpose.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { newPlace, recordsOf, wholeUrl } from "./waymark.js";

/** Makes a task of three checkpoints, and changes each as the test requests. */
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

/** The second file isn't a checkpoint, and the end of the third one's state was changed. */
const halfDamaged = (text: string, n: number) => (n === 2 ? "{" : n === 3 ? text.replace(/^(.*)abc/s, "$1abd") : text);

/** A database of three checkpoints, changed by the statement. */
async function damagedDatabase(sql: string) {
  const place = await newPlace();
  for (let n = 1; n <= 3; n++) await place.manager.save("t", { n, filler: "abc" });
  await place.manager.close();
  const database = new Database(join(place.cwd, "checkpoints.db"));
  database.exec(sql);
  database.close();
  return place;
}

/** Kinds of damage to the newest of three checkpoints, with the reasons that messages show. */
const NEWEST_DAMAGED = {
  "a file that was cut short": {
    make: () => damagedPlace((text, n) => (n === 3 ? "{" : text)),
    why: /doesn't begin like a checkpoint file/g,
    isListed: true,
  },
  "a file whose state was changed": {
    make: () => damagedPlace((text, n) => (n === 3 ? text.replace(/^(.*)abc/s, "$1abd") : text)),
    why: /fails its SHA-256 checksum/g,
    isListed: false,
  },
  "a row that was changed": {
    make: () => damagedDatabase("UPDATE waymark_checkpoints SET label = 'x' WHERE sequence = 3"),
    why: /seal doesn't match/g,
    isListed: true,
  },
  "a row whose state was changed": {
    make: () => damagedDatabase("UPDATE waymark_payloads SET body = replace(body, 'abc', 'abd') WHERE number = 3"),
    why: /fails its SHA-256 checksum/g,
    isListed: false,
  },
} as const;

describe.each(Object.entries(NEWEST_DAMAGED))("%s", (_what, { make, why, isListed }) => {
  it.each([
    ["tasks", false],
    ["list t", false],
    ["stats", false],
    ["resume", false],
    ["prune t --keep-last 1 --dry-run", false],
    ["prune --all --keep-last 1 --dry-run", false],
    ["show t", true],
    ["show t @latest --state", true],
    ["show t @3", true],
    ["diff t", true],
    ["diff t @1 @3", true],
    ["bisect t --command true", true],
    ["export", true],
    ["copy --to files:to", true],
  ])("is explained once by %s, with the command's own advice", async (command, readsStates) => {
    const { run } = await make();
    const { code, stderr } = await run(...command.split(" "));
    const explained = isListed || readsStates ? 1 : 0;
    expect([stderr, stderr.match(why)?.length ?? 0]).toEqual([stderr, explained]);
    expect(stderr.match(/"waymark verify" lists all damage, and "waymark repair" moves it away\./g) ?? []).toHaveLength(
      explained,
    );
    expect(stderr.match(/untouched/g) ?? []).toHaveLength(explained);
    expect(stderr).not.toMatch(/backup|latest\(\)/);
    // bisect ends with its own error, because every readable state is good.
    expect(code).toBe(command.startsWith("bisect") ? 1 : explained === 1 ? 5 : 0);
  });
});

describe("a task without an intact checkpoint", () => {
  it.each(["show t", "diff t", "prune t --keep-last 1 --yes", "complete t --yes"])(
    "is explained by %s, each checkpoint once",
    async (command) => {
      const { run } = await damagedPlace(() => "{");
      const { code, stderr } = await run(...command.split(" "));
      expect(code).toBe(5);
      expect(stderr.match(/doesn't begin like/g)).toHaveLength(command.startsWith("complete") ? 1 : 3);
      expect(stderr.match(/"waymark repair" moves it away/g)).toHaveLength(1);
      expect(stderr).not.toMatch(/backup/);
    },
  );
});

describe("waymark complete", () => {
  it("reports once why the newest checkpoint can't be completed, and what to do", async () => {
    const { run } = await damagedPlace((text, n) => (n === 3 ? "{" : text));
    const { code, stdout, stderr } = await run("complete", "t", "--yes");
    expect([code, stdout]).toEqual([5, ""]);
    expect(stderr).toMatch(
      /^waymark: The newest checkpoint of task "t" can't be read: it doesn't begin .* \(.*\)\. Nothing was changed\. "waymark verify" .*"waymark repair" moves it away\. \[CHECKPOINT_CORRUPT\]\n$/,
    );
  });
});

describe("waymark delete", () => {
  it("reports that a checkpoint is damaged when it asks, and removes it on purpose", async () => {
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

  it("reports how much of a task is damaged, and removes all of it", async () => {
    const { run } = await damagedPlace(halfDamaged);
    expect((await run("delete", "t")).stderr).toMatch(
      /Remove task "t" with 3 checkpoints \(.*; 2 of them damaged\) from/,
    );
    expect((await run("delete", "t", "--yes")).stdout).toBe("Removed 3 checkpoints, 2 of them damaged.\n");
    const whole = await damagedPlace(() => "{");
    expect((await whole.run("delete", "t", "--yes", "--json")).stdout).toBe('{"removed":3,"damaged":3}\n');
    expect((await whole.run("delete", "t", "--yes")).code).toBe(3);
  });

  it("finds intact checkpoints next to one without an id, and reports that this one can't be removed by itself", async () => {
    const { cwd, run, manager } = await newPlace("tasks:store");
    for (let n = 1; n <= 3; n++) await manager.save("t", n);
    await manager.close();
    const path = join(cwd, "store", "t", "checkpoints.json");
    const lines = readFileSync(path, "utf8").split("\n");
    writeFileSync(path, lines.with(2, `oh no ${"#".repeat(9)}`).join("\n"));
    expect((await run("show", "t", "@3", "--state")).stdout).toBe("3\n");
    const refused = await run("delete", "t", "@2", "--yes");
    expect([refused.code, refused.stdout]).toEqual([5, ""]);
    expect(refused.stderr).toMatch(
      /@2 .* can't be removed by itself: .*checkpoints\.json \(line 3\).*removes the whole task/,
    );
    expect((await run("delete", "t", "@3", "--yes")).stdout).toBe("Removed 1 checkpoint.\n");
  });
});

describe("waymark copy", () => {
  it.each(["files:to", "sqlite:to.db"])(
    "into %s says how many could not be read, and doesn't say that all are identical",
    async (to) => {
      const { cwd, run } = await damagedPlace(halfDamaged);
      const { code, stdout, stderr } = await run("copy", "--to", to);
      expect([code, stdout]).toEqual([
        5,
        `Copied 1 checkpoint to ${wholeUrl(cwd, to)}.\n1 of 3 identical; 2 can't be read, and were not copied\n`,
      ]);
      expect(stderr.match(/skipped a damaged record/g)).toHaveLength(2);
      expect(await recordsOf(cwd, to)).toMatchObject([{ sequence: 1 }]);
      expect(JSON.parse((await run("copy", "--to", to, "--json")).stdout)).toEqual({
        records: 3,
        identical: 1,
        copied: 0,
        logRecords: 0,
        extra: 0,
        unreadable: 2,
        leftOut: [],
      });
    },
  );

  it("counts a damaged row once, though a list and a read name it differently", async () => {
    const { run } = await damagedDatabase("UPDATE waymark_checkpoints SET label = 'x' WHERE sequence = 3");
    expect(JSON.parse((await run("copy", "--to", "files:to", "--json")).stdout)).toMatchObject({
      records: 3,
      identical: 2,
      unreadable: 1,
    });
  });

  it("also reports if nothing of a task can be read", async () => {
    const { run } = await damagedPlace(() => "{");
    const { code, stdout } = await run("copy", "--to", "files:to");
    expect([code, stdout]).toEqual([5, expect.stringContaining("0 of 3 identical; 3 can't be read")]);
  });
});

it("a damaged lease hides no task, only its runner", async () => {
  const place = await newPlace("files:store");
  for (const taskId of ["a", "b"]) await place.manager.save(taskId, 1);
  await place.manager.lease("a");
  await place.manager.close();
  writeFileSync(join(place.cwd, "store", "a", ".lease.json"), "{");
  const tasks = await place.run("tasks");
  expect(tasks.stdout).toMatch(/^a +1 [\s\S]*^b +1 /m);
  expect(tasks.stderr).toMatch(/^warning: leases can't be read: .*lease/);
  const shown = await place.run("show", "a");
  expect(shown.stdout).toMatch(/^checkpoint /m);
  expect(shown.stderr).toMatch(/^warning: leases can't be read: /);
});
