import { expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { createBuildCheckpoints } from "waymark/builds";
import { WaymarkSaver } from "waymark/langgraph";

// Tests programs in JavaScript that pass a bare value instead of options.
const bare = (text: string) => text as unknown as never;

it.each([
  [() => new SqliteAdapter(bare("x.db")), 'SqliteAdapterOptions must be an object: { path: "x.db" }.'],
  [() => new JsonFileAdapter(bare("store")), 'JsonFileAdapterOptions must be an object: { path: "store" }.'],
  [() => new TaskFileAdapter(bare("store")), 'TaskFileAdapterOptions must be an object: { path: "store" }.'],
  [() => createBuildCheckpoints(bare("b.db")), 'BuildCheckpointsOptions must be an object: { path: "b.db" }.'],
  [() => new CheckpointManager(bare("x.db")), "CheckpointManagerOptions must be an object: { storage: … }."],
  [() => new WaymarkSaver(bare("x.db")), "WaymarkSaverOptions must be an object: { storage: … }."],
  [() => new SqliteAdapter(undefined as never), "SqliteAdapterOptions must be an object: { path: … }."],
])("%s names the options to pass", (make, message) => {
  expect(make).toThrow(new TypeError(message));
});

it("the message for a bare PostgreSQL URL doesn't repeat it, because it may contain a password", () => {
  const make = () => new PostgresAdapter(bare("postgres://me:secret@host/db"));
  expect(make).toThrow(new TypeError("PostgresAdapterOptions must be an object: { url: … }."));
});
