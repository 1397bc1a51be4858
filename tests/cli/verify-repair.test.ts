// verify and repair: what they find, show, ask, change, and exit with.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { cleanEnv, newPlace, start, WAYMARK } from "./waymark.js";

/** A store of files with three checkpoints, the newest of which is damaged. */
async function damagedPlace() {
  const { cwd, manager, run } = await newPlace("files:store", {
    createId: ({ stage }) => `id-${stage}`,
    clock: () => Date.UTC(2026, 10, 21, 10),
  });
  for (const n of [1, 2, 3]) await manager.save("build-42", { n }, { stage: `s${n}` });
  await manager.close();
  const path = join(cwd, "store", "build-42", "000000000003-id-s3.json");
  writeFileSync(path, readFileSync(path, "utf8").replace('"n":3', '"n":4'));
  return { cwd, path, run };
}

it("verify says that nothing is wrong, and exits with 0", async () => {
  const { manager, run } = await newPlace();
  await manager.save("build-42", { n: 1 });
  await manager.close();
  expect(await run("verify")).toEqual({
    code: 0,
    stdout: "1 checkpoint of 1 task (7 B) in sqlite:checkpoints.db: nothing is wrong.\n",
    stderr: "",
  });
});

it("verify shows what it finds, and exits with 1; --quick leaves payloads unread; --json is for programs", async () => {
  const { path, run } = await damagedPlace();
  const { code, stdout, stderr } = await run("verify");
  expect([code, stderr]).toEqual([1, ""]);
  expect(stdout).toMatch(/^damaged +build-42 +3 +its payload fails its SHA-256 checksum +\/.*id-s3\.json$/m);
  expect(stdout).toContain("3 checkpoints of 1 task (21 B) in files:store: 1 finding.");
  expect((await run("verify", "--quick")).code).toBe(0);
  const json = await run("verify", "--json");
  expect([json.code, JSON.parse(json.stdout)]).toMatchObject([
    1,
    { tasks: 1, checkpoints: 3, findings: [{ kind: "damaged", taskId: "build-42", sequence: 3, location: path }] },
  ]);
});

it("repair shows its plan, changes nothing without a yes, then moves what is damaged and says what is newest", async () => {
  const { cwd, path, run } = await damagedPlace();
  const damaged = readFileSync(path);
  const plan = await run("repair", "--dry-run");
  expect([plan.code, plan.stdout]).toEqual([
    0,
    expect.stringMatching(/^quarantine +build-42 +3 +2026-11-21 10:00:00/m),
  ]);
  expect(plan.stdout).toContain("Move 1 damaged record to quarantine, in files:store. Nothing was changed.");
  const asked = await run("repair");
  expect([asked.code, asked.stderr]).toEqual([4, expect.stringContaining("Pass --yes if that is what you want.")]);
  expect(readFileSync(path).equals(damaged)).toBe(true);

  const done = await run("repair", "--yes");
  expect([done.code, done.stderr]).toEqual([0, ""]);
  expect(done.stdout).toContain('Task "build-42": the newest intact one is @2 of 2026-11-21 10:00:00 (id-s2).');
  const folder = join(cwd, "store", ".quarantine", "build-42");
  expect(readdirSync(folder)).toEqual(["000000000003-id-s3.json", "000000000003-id-s3.json.reason.json"]);
  expect(readFileSync(join(folder, "000000000003-id-s3.json")).equals(damaged)).toBe(true);
  expect((await run("verify")).code).toBe(0);
  expect(await run("repair")).toEqual({ code: 0, stdout: "There is nothing to repair, in files:store.\n", stderr: "" });
});

it("repair exits with 1 where damage is left that it can't repair", async () => {
  const { cwd, run } = await newPlace();
  writeFileSync(join(cwd, "checkpoints.db"), "no database, but longer than a page of one. ".repeat(50));
  const verified = await run("verify");
  expect([verified.code, verified.stdout]).toEqual([
    1,
    expect.stringMatching(/^(damaged|refused) .*not .*SQLite database/m),
  ]);
  const { code, stdout } = await run("repair", "--yes", "--json");
  expect([code, JSON.parse(stdout)]).toMatchObject([1, { steps: [{ action: "left", advice: expect.any(String) }] }]);
});

/** A database with this many checkpoints, all damaged. */
async function damagedDatabase(damaged: number) {
  const place = await newPlace();
  for (let n = 1; n <= damaged; n++) await place.manager.save("build-42", { n });
  await place.manager.close();
  const database = new Database(join(place.cwd, "checkpoints.db"));
  database.exec("UPDATE waymark_checkpoints SET label = 'another'");
  database.close();
  return place;
}

it.each(["text", "--json"])("repair shows at Ctrl-C what it has done, and run again goes on: %s", async (form) => {
  const { cwd, place, run } = await damagedDatabase(40);
  // The second row that goes to quarantine is given its date.
  const interrupting = `
    const { toISOString } = Date.prototype;
    let calls = 0;
    Date.prototype.toISOString = function () {
      calls += 1;
      if (calls === 2) process.kill(process.pid, "SIGINT");
      return toISOString.call(this);
    };
    export default {};`;
  writeFileSync(join(cwd, "waymark.config.mjs"), interrupting);
  const args = ["repair", "--yes", ...(form === "--json" ? [form] : [])];
  const child = start(place, args, { stdio: ["ignore", "pipe", "inherit"] });
  let stdout = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  // As it would have ended without a listener: a shell shows 130.
  expect(await once(child, "close")).toEqual([null, "SIGINT"]);
  const database = new Database(join(cwd, "checkpoints.db"), { readonly: true });
  const moved = Number(database.prepare("SELECT count(*) FROM waymark_quarantine").pluck().get());
  database.close();
  // A signal takes its time to arrive: one or two more may have been moved by then.
  expect(moved).toBeGreaterThan(1);
  expect(moved).toBeLessThan(40);
  if (form === "text") {
    expect(stdout.match(/^quarantined +build-42/gm)).toHaveLength(moved);
    expect(stdout).toContain(
      `Stopped. Move ${moved} damaged records to quarantine: done, in sqlite:checkpoints.db. Run it again to go on.\n`,
    );
  } else expect([JSON.parse(stdout).stopped, JSON.parse(stdout).steps.length]).toEqual([true, moved]);

  writeFileSync(join(cwd, "waymark.config.mjs"), "export default {};");
  expect((await run("repair", "--yes")).stdout).toContain(`Move ${40 - moved} damaged records to quarantine: done`);
  expect((await run("verify")).code).toBe(0);
});

it.skipIf(process.platform === "win32")(
  "repair that fails midway shows what it has done, then why it failed, and run again goes on (skipped on Windows: no ulimit)",
  async () => {
    const { cwd, place, manager, run } = await newPlace("files:store");
    for (const state of ["small", "x".repeat(200_000), "small too"]) await manager.save("build-42", state);
    await manager.close();
    const folder = join(cwd, "store", "build-42");
    for (const name of readdirSync(folder).filter((name) => name.endsWith(".json"))) {
      const path = join(folder, name);
      writeFileSync(path, readFileSync(path, "utf8").replace('"running"', '"completed"'));
    }
    // Whoever may write no file that large: the second record doesn't fit into quarantine.
    const limited = ["-c", 'ulimit -f 100; exec "$0" "$@"', process.execPath, WAYMARK, "repair", "--yes"];
    const child = spawn("sh", limited, { cwd, env: cleanEnv(place.env) });
    const printed = { stdout: "", stderr: "" };
    for (const stream of ["stdout", "stderr"] as const) {
      child[stream].setEncoding("utf8").on("data", (text: string) => {
        printed[stream] += text;
      });
    }
    expect(await once(child, "close")).toEqual([1, null]);
    expect(printed.stdout.match(/^quarantined +build-42 +1 /gm)).toHaveLength(1);
    expect(printed.stdout).toContain(
      "Stopped. Move 1 damaged record to quarantine: done, in files:store. Run it again",
    );
    expect(printed.stderr).toMatch(/EFBIG|too large/);
    expect((await run("repair", "--yes")).stdout).toContain("Move 2 damaged records to quarantine: done");
    expect((await run("verify")).code).toBe(0);
  },
);
