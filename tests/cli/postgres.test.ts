import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { PostgresAdapter, postgresDdl } from "waymark/adapters/postgres";
import { newSchema } from "../support/postgres.js";
import { tempFolder } from "../support/temp-folder.js";
import { waymark } from "./waymark.js";

/** A schema with two tasks, and the command on it. `secret` is the password. */
async function store() {
  const { url, schema } = await newSchema();
  const storage = `${url}?schema=${schema}`;
  const manager = new CheckpointManager({ storage: new PostgresAdapter({ url, schema }) });
  for (const n of [1, 2]) await manager.save("build-42", { n }, { stage: `phase-${n}` });
  await manager.save("build-43", { n: 3 });
  await manager.complete("build-43");
  await manager.close();
  const cwd = await tempFolder();
  const run = async (...args: string[]) => {
    const ended = await waymark({ cwd, env: { WAYMARK_STORAGE: storage } }, args);
    expect(ended.stdout + ended.stderr).not.toContain(new URL(url).password);
    return ended;
  };
  return { storage, schema, run };
}

describe("waymark on PostgreSQL", () => {
  it("shows tasks and checkpoints, and verifies them", async () => {
    const { run } = await store();
    expect((await run("tasks", "--incomplete")).stdout).toMatch(/build-42 +2 +interrupted/);
    expect((await run("list", "build-42")).stdout).toMatch(/phase-2[\s\S]*phase-1/);
    expect((await run("show", "build-42", "@1", "--state")).stdout).toMatch(/"n": ?1/);
    expect(await run("verify")).toMatchObject({ code: 0 });
  });

  it("reports the bytes of the tables on the disk as well as those of the states", async () => {
    const { run } = await store();
    expect((await run("stats")).stdout).toMatch(
      /^2 tasks, 3 checkpoints, 21 B of states; the storage takes \d+ KiB on the disk$/m,
    );
    const dryRun = await run("prune", "--all", "--keep-last", "1", "--dry-run");
    expect(dryRun.stdout).toMatch(
      /^These are bytes of whole states\. The storage takes \d+ KiB on the disk: it stores$/m,
    );
    expect(dryRun.stdout).toContain("once the server has vacuumed the tables.");
  });

  it("copies there and back, and removes", async () => {
    const { storage, run } = await store();
    expect((await run("copy", "--to", "files:backup")).stdout).toMatch(/3 of 3 identical/);
    expect((await run("delete", "build-42", "--yes")).stdout).toMatch(/Removed 2/);
    const back = await run("copy", "--storage", "files:backup", "--to", storage);
    expect(back.stdout).toMatch(/Copied 2 checkpoints to postgres:\/\/127[\s\S]*3 of 3 identical/);
    expect(await run("copy", "--to", storage)).toMatchObject({ code: 2, stderr: expect.stringMatching(/copy from/) });
  });

  it("names the storage without user and password", async () => {
    const { run, schema } = await store();
    const { stderr } = await run("tasks", "--prefix", "nothing");
    expect(stderr).toMatch(/^No task of postgres:\/\/[\d.:]+\/postgres\?schema=/);
    expect(stderr).toContain(schema);
  });

  it("prints suggested commands without user and password", async () => {
    const { storage, run } = await store();
    const bisect = (command: string) => run("bisect", "build-42", "--storage", storage, "--command", command);
    expect((await bisect("grep -q 1")).stdout).toMatch(
      /^See: waymark diff --storage 'postgres:\/\/127\S+' build-42 @1 @2$/m,
    );
    expect((await bisect("no-such-command; exit 127")).stderr).toMatch(
      /by hand: waymark show --state --storage 'postgres:/,
    );
  });

  it.each(["tasks", "list build-42", "resume", "verify", "copy --to files:backup"])(
    "says for `%s` that a schema has no storage",
    async (command) => {
      const { storage, run } = await store();
      const { code, stdout, stderr } = await run(...command.split(" "), "--storage", `${storage}_typo`);
      expect([code, stdout]).toEqual([3, ""]);
      expect(stderr).toMatch(/There is no storage postgres:.*_typo: the database has no tables of Waymark/);
    },
  );

  it("prints the DDL, and needs no storage for it", async () => {
    const { code, stdout } = await waymark({ cwd: await tempFolder() }, ["postgres", "ddl", "--schema", "app"]);
    expect([code, stdout]).toEqual([0, postgresDdl("app")]);
  });
});
