import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { startPostgres } from "../../examples/two-machines/src/postgres-server.js";
import { tempFolder } from "../support/temp-folder.js";
import { worked } from "./waiting-tasks.js";
import { waymark, waymarkProcess } from "./waymark.js";

it("ends by itself if the server asks for a password and none is given", async () => {
  const cwd = await tempFolder();
  const rules = join(cwd, "pg_hba.conf");
  writeFileSync(rules, "host all all all scram-sha-256\n");
  // The server's user reads it.
  chmodSync(cwd, 0o755);
  // The server would end the connection only after longer than any test may take.
  const server = await startPostgres(["-c", `hba_file=${rules}`, "-c", "authentication_timeout=600"]);
  onTestFinished(() => server.stop());
  const url = new URL(server.url);
  url.password = "";
  const { code, stderr } = await waymarkProcess({ cwd, env: { WAYMARK_STORAGE: url.href } }, ["tasks"]);
  expect([code, stderr]).toEqual([1, expect.stringMatching(/refuses the connection: SASL: .*password/)]);
});

it("shows waits, events and the fleet of a server, and copies them to a file and back", async () => {
  const cwd = await tempFolder();
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  const place = { cwd, env: { WAYMARK_STORAGE: server.url } };
  const run = (...args: string[]) => waymark(place, args);
  await using manager = new CheckpointManager({ storage: openStorage(server.url), ownsStorage: true });
  await worked(manager, { "w/1": "waits", "w/2": "fails" });
  await manager.enqueue("v/due");
  expect((await run("resume")).stdout).toMatch(/^w\/1 .* waiting +waits for "approve"$/m);
  expect((await run("tasks", "--watch")).stdout).toMatch(
    /^1 due, the oldest for .*; 0 being run .*\n(.*\n)*w\/1 +waiting +waits for "approve" /,
  );
  expect((await run("send", "w/1", "note", "1", "--id", "s1")).stdout).toContain("It is kept");
  expect((await run("tasks", "--limit", "2", "--json")).stdout).not.toContain("events");
  expect((await run("copy", "--to", "sqlite:copy.db")).stdout).toMatch(/^(\d+) of \1 identical$/m);
  await using copy = new CheckpointManager({
    storage: openStorage("sqlite:copy.db", { relativeTo: cwd }),
    ownsStorage: true,
  });
  expect(await copy.events("w/1")).toMatchObject([{ id: "s1", name: "note", value: 1 }]);
  expect((await run("cancel", "--prefix", "w/", "--reason", "x", "--yes")).stdout).toBe("Cancelled 2 tasks.\n");
  const lease = await manager.lease("w/2", { holder: "worker-1" });
  expect((await run("delete", "--prefix", "w/", "--yes")).stderr).toContain('Task "w/2" is run by worker-1.');
  await lease.release();
  const checkpoints = (await manager.list("w/1")).length + (await manager.list("w/2")).length;
  expect((await run("delete", "--prefix", "w/", "--yes")).stdout).toBe(
    `Removed 2 tasks with ${checkpoints} checkpoints.\n`,
  );
  expect((await manager.tasks()).map(({ taskId }) => taskId)).toEqual(["v/due"]);
  expect(await manager.events("w/1")).toEqual([]);
});
