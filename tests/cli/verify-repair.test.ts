// verify and repair: their findings, output, questions, changes and exit codes.
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { newPlace, start, waymark, wholeUrl } from "./waymark.js";

const SQLITE = pathToFileURL(join(import.meta.dirname, "..", "..", "dist", "adapters", "sqlite", "sqlite.js")).href;

/** A store of files with three checkpoints, the newest of them damaged. */
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

it("verify reports that nothing is wrong, and exits with 0", async () => {
  const { cwd, manager, run } = await newPlace();
  await manager.save("build-42", { n: 1 });
  await manager.close();
  expect(await run("verify")).toEqual({
    code: 0,
    stdout: `1 checkpoint of 1 task (7 B) in ${wholeUrl(cwd, "sqlite:checkpoints.db")}: nothing is wrong.\n`,
    stderr: "",
  });
});

it("verify shows its findings, and exits with 1; --quick doesn't read payloads; --json is for programs", async () => {
  const { cwd, path, run } = await damagedPlace();
  const { code, stdout, stderr } = await run("verify");
  expect([code, stderr]).toEqual([1, ""]);
  expect(stdout).toMatch(/^damaged +build-42 +3 +its payload fails its SHA-256 checksum +\/.*id-s3\.json$/m);
  expect(stdout).toContain(`3 checkpoints of 1 task (21 B) in ${wholeUrl(cwd, "files:store")}: 1 finding.`);
  expect((await run("verify", "--quick")).code).toBe(0);
  const json = await run("verify", "--json");
  expect([json.code, JSON.parse(json.stdout)]).toMatchObject([
    1,
    { tasks: 1, checkpoints: 3, findings: [{ kind: "damaged", taskId: "build-42", sequence: 3, location: path }] },
  ]);
});

it("repair shows its plan, changes nothing without a yes, then moves damaged records and names the newest intact one", async () => {
  const { cwd, path, run } = await damagedPlace();
  const damaged = readFileSync(path);
  const plan = await run("repair", "--dry-run");
  expect([plan.code, plan.stdout]).toEqual([
    0,
    expect.stringMatching(/^quarantine +build-42 +3 +2026-11-21 10:00:00/m),
  ]);
  expect(plan.stdout).toContain(
    `Move 1 damaged record to quarantine, in ${wholeUrl(cwd, "files:store")}. Nothing was changed.`,
  );
  const asked = await run("repair");
  expect([asked.code, asked.stderr]).toEqual([4, expect.stringContaining("Pass --yes if that is what you want.")]);
  expect(readFileSync(path).equals(damaged)).toBe(true);

  const done = await run("repair", "--yes");
  expect([done.code, done.stderr]).toEqual([0, ""]);
  expect(done.stdout).toContain('Task "build-42": the newest intact one is @2 of 2026-11-21 10:00:00 (id-s2).');
  const folder = join(cwd, "store", ".quarantine", "build-42");
  const [moved = "", reason, ...others] = readdirSync(folder).sort((a, b) => a.length - b.length);
  expect([moved, reason, others]).toEqual([expect.stringContaining("000000000003-id-s3"), `${moved}.reason.json`, []]);
  expect(readFileSync(join(folder, moved)).equals(damaged)).toBe(true);
  expect((await run("verify")).code).toBe(0);
  expect(await run("repair")).toEqual({
    code: 0,
    stdout: `There is nothing to repair, in ${wholeUrl(cwd, "files:store")}.\n`,
    stderr: "",
  });
});

it("repair exits with 1 if it can't repair some damage", async () => {
  const { cwd, run, manager } = await newPlace();
  await manager.save("build-42", { n: 1 });
  await manager.close();
  const database = readFileSync(join(cwd, "checkpoints.db"));
  writeFileSync(join(cwd, "checkpoints.db"), database.fill(0, 0, 16));
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

/** Configures a database whose repair runs `code` after its second step. */
function afterSecondStep(cwd: string, code: string): void {
  const source = `
    import { once } from "node:events";
    import { SqliteAdapter } from ${JSON.stringify(SQLITE)};
    const storage = new SqliteAdapter({ path: "checkpoints.db" });
    const { maintenance } = storage;
    async function* repair(options) {
      let steps = 0;
      for await (const step of maintenance.repair(options)) {
        yield step;
        steps += 1;
        if (steps === 2 && !options.dryRun) { ${code} }
      }
    }
    const verify = (options) => maintenance.verify(options);
    Object.defineProperty(storage, "maintenance", { value: { verify, repair } });
    export default { storage };`;
  writeFileSync(join(cwd, "waymark.config.mjs"), source);
}

function quarantinedIn(cwd: string): number {
  const database = new Database(join(cwd, "checkpoints.db"), { readonly: true });
  const count = Number(database.prepare("SELECT count(*) FROM waymark_quarantine").pluck().get());
  database.close();
  return count;
}

it.each(["text", "--json"])(
  "repair shows at Ctrl-C what it has done, and the next run does the rest: %s",
  async (form) => {
    const { cwd, run } = await damagedDatabase(10);
    afterSecondStep(
      cwd,
      `const arrived = once(process, "SIGINT"), alive = setInterval(() => {}, 50); process.kill(process.pid, "SIGINT"); await arrived; clearInterval(alive);`,
    );
    const args = ["repair", "--yes", ...(form === "--json" ? [form] : [])];
    const child = start({ cwd }, args, { stdio: ["ignore", "pipe", "inherit"] });
    let stdout = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    // The signal ends the process as without a listener: a shell shows 130.
    expect(await once(child, "close")).toEqual([null, "SIGINT"]);
    const moved = quarantinedIn(cwd);
    expect(moved).toBe(2);
    if (form === "text") {
      expect(stdout.match(/^quarantined +build-42/gm)).toHaveLength(moved);
      expect(stdout).toContain(
        "Stopped. Move 2 damaged records to quarantine: done, in sqlite. Run it again to continue.\n",
      );
    } else expect([JSON.parse(stdout).stopped, JSON.parse(stdout).steps.length]).toEqual([true, moved]);

    writeFileSync(join(cwd, "waymark.config.mjs"), "export default {};");
    expect((await run("repair", "--yes")).stdout).toContain("Move 8 damaged records to quarantine: done");
    expect((await run("verify")).code).toBe(0);
  },
);

it("repair that fails midway shows what it has done and why it failed, and the next run does the rest", async () => {
  const { cwd, run } = await damagedDatabase(5);
  afterSecondStep(cwd, 'throw new Error("The disk is full.");');
  const { code, stdout, stderr } = await waymark({ cwd }, ["repair", "--yes"]);
  expect([code, stderr]).toEqual([1, expect.stringContaining("The disk is full.")]);
  expect(stdout).toContain("Stopped. Move 2 damaged records to quarantine: done, in sqlite. Run it again");
  expect(quarantinedIn(cwd)).toBe(2);
  expect((await run("repair", "--yes")).stdout).toContain("Move 3 damaged records to quarantine: done");
  expect((await run("verify")).code).toBe(0);
});
