// Saves twice, and stalls its whole event loop in the middle of the second save, while it holds the lock: node
// stalled.mjs <adapter> <folder> <call> <milliseconds>. It stalls before the call `fsync` or `rename`, or on SQLite
// before `COMMIT`. Prints `stalled` just before the stall, and at the end each save's answer as a line of JSON.
import fs, { writeSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import Database from "better-sqlite3";

const [, , kind, folder, call, milliseconds] = process.argv;
let isArmed = false;

for (const name of ["fsync", "renameSync"]) {
  const real = fs[name];
  fs[name] = (...args) => {
    // fsync itself continues while the event loop stands still.
    const result = name === "fsync" ? real(...args) : undefined;
    if (name.startsWith(call)) stallOnce();
    return name === "fsync" ? result : real(...args);
  };
}
syncBuiltinESMExports();
const { prepare } = Database.prototype;
Database.prototype.prepare = function (sql) {
  const statement = prepare.call(this, sql);
  if (sql !== "COMMIT") return statement;
  return {
    run: (...values) => {
      if (call === "COMMIT") stallOnce();
      return statement.run(...values);
    },
  };
};

const { openAdapter } = await import("./open-adapter.mjs");
const adapter = await openAdapter(kind, folder);
const answers = [];
for (const id of ["before", "stalled", "after"]) {
  isArmed = id === "stalled";
  const payload = {
    encoding: "json",
    body: "1",
    sha256: "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
  };
  const createdAt = "2026-01-02T03:04:05.678Z";
  const draft = { taskId: "t", id, createdAt, status: "running", stateVersion: 1, sizeBytes: 1, payload };
  answers.push(await adapter.append(draft).catch((error) => `${error.code}: ${error.message}`));
}
await adapter.close();
writeSync(1, `${JSON.stringify(answers)}\n`);

function stallOnce() {
  if (!isArmed) return;
  isArmed = false;
  writeSync(1, "stalled\n");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(milliseconds));
}
