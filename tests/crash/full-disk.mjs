// Fills a disk under a store: `unshare -m node full-disk.mjs <folder> <kind>...`. With unshare, only this process sees
// the small disk that it mounts on the folder, and the disk disappears with the process. Prints a line of JSON with the
// results of each adapter.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chownSync, closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { bundled } from "../support/bundled.mjs";
import { openAdapter } from "./open-adapter.mjs";

const [, , folder, ...kinds] = process.argv;
const query = { taskId: "t", order: "oldest" };

for (const kind of kinds) {
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]);
  const store = join(folder, "store");
  const server = kind === "postgres" ? await startServer(store) : undefined;
  const open = async () => (server ? new PostgresAdapter({ url: server.url }) : openAdapter(kind, store));
  const adapter = await open();
  const saved = [];
  for (let number = 1; number <= 5; number++) saved.push(await adapter.append(draft(`before-${number}`)));
  const ballast = join(folder, "ballast");
  fill(ballast);
  const errors = [];
  const acknowledged = [];
  // Twenty saves need more than the space that may be left in a file's last page or in SQLite's log.
  for (let number = 1; number <= 20; number++) {
    const id = `full-${number}`;
    const large = draft(id, 100_000);
    const { createdAt, payload } = large;
    const isEvent = adapter.log !== undefined && number % 2 === 0;
    const event = { kind: "event", name: "sent", id, createdAt, payload };
    await (isEvent ? adapter.log.append("t", [event]) : adapter.append(large)).then(
      () => acknowledged.push(id),
      ({ code, message, retryable }) => errors.push({ code, message, retryable }),
    );
  }
  const whileFull = await idsIn(adapter);
  const elsewhere = await open();
  const readByAnother = await idsIn(elsewhere);
  await elsewhere.close();
  await adapter.close();
  // Fills the space that closing has freed.
  fill(join(folder, "more-ballast"));
  const anew = await open();
  const readAnew = await idsIn(anew).catch(({ code, message, retryable }) => ({ code, message, retryable }));
  rmSync(ballast);
  rmSync(join(folder, "more-ballast"));
  const next = await anew.append(draft("after")).catch((error) => error.message);
  const afterwards = await idsIn(anew);
  await anew.close();
  const report = { kind, saved, errors, acknowledged, whileFull, readByAnother, readAnew, next, afterwards };
  writeSync(1, `${JSON.stringify(report)}\n`);
  await server?.stop();
  execFileSync("umount", [folder]);
}

/** Starts a server whose tables are in a tablespace on the small disk, and everything else is elsewhere. */
async function startServer(tablespace) {
  const { NOBODY, startPostgres } = await import(await bundled("examples/two-machines/src/postgres-server.ts"));
  mkdirSync(tablespace);
  chownSync(tablespace, NOBODY.uid, NOBODY.gid);
  const server = await startPostgres();
  const client = new pg.Client(server.url);
  await client.connect();
  await client.query(`CREATE TABLESPACE small LOCATION '${tablespace}'`);
  await client.query("ALTER DATABASE postgres SET default_tablespace = 'small'");
  await client.end();
  return server;
}

/** Writes to a file until not one more byte fits on the disk. */
function fill(path) {
  mkdirSync(folder, { recursive: true });
  const file = openSync(path, "w");
  for (let size = 1 << 16; size > 0; ) {
    try {
      writeSync(file, Buffer.alloc(size));
    } catch (error) {
      if (error.code !== "ENOSPC") throw error;
      size >>= 1;
    }
  }
  closeSync(file);
}

async function idsIn(adapter) {
  const ids = [];
  const items = adapter.log ? adapter.log.read(query) : adapter.read(query);
  for await (const { id, corrupt } of items) ids.push(corrupt ? `corrupt: ${id}` : id);
  return ids;
}

function draft(id, size = 10) {
  const body = JSON.stringify("x".repeat(size));
  const payload = { encoding: "json", body, sha256: createHash("sha256").update(body).digest("hex") };
  const createdAt = "2026-01-02T03:04:05.678Z";
  return { taskId: "t", id, createdAt, status: "running", stateVersion: 1, sizeBytes: body.length, payload };
}
