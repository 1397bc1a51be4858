// The places of the saver's tests: every storage, and savers on it.
import { onTestFinished } from "vitest";
import type { StorageAdapter } from "waymark";
import { type RecordHeader, toRecordHeader } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { WaymarkSaver, type WaymarkSaverOptions } from "waymark/langgraph";
import { threadPrefix } from "waymark/langgraph/records";
import { collect } from "../../support/collect.js";
import { newSchema } from "../../support/postgres.js";
import { type LogLine, recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";

export type StorageKind = "memory" | "json-file" | "task-file" | "sqlite" | "postgres";

/** A place for threads. */
export interface Place {
  readonly kind: StorageKind;
  /** A new adapter each time, as another process would have it; for memory the same one. */
  readonly open: () => StorageAdapter;
  /** A URL for another process. */
  readonly url: string;
  /** For files and SQLite. */
  readonly folder: string;
  /** For PostgreSQL. */
  readonly schema?: { readonly url: string; readonly schema: string };
}

/** An empty place, gone when the test is over. */
export async function newPlace(kind: StorageKind): Promise<Place> {
  const memory = new MemoryAdapter();
  if (kind === "memory") return { kind, open: () => memory, url: "", folder: "" };
  const isServer = kind === "postgres";
  const place = isServer ? { folder: "", schema: await newSchema() } : { folder: await tempFolder() };
  const url = urlOf(kind, place);
  const open = () => {
    const storage = openStorage(url);
    onTestFinished(() => storage.close());
    return storage;
  };
  return { kind, open, url, ...place };
}

function urlOf(kind: Exclude<StorageKind, "memory">, { folder, schema }: Pick<Place, "folder" | "schema">): string {
  if (schema !== undefined) {
    const url = new URL(schema.url);
    url.searchParams.set("schema", schema.schema);
    return url.href;
  }
  return {
    "json-file": `files:${folder}`,
    "task-file": `tasks:${folder}`,
    sqlite: `sqlite:${folder}/agent.db`,
    postgres: "",
  }[kind];
}

export type SaverOptions = Omit<WaymarkSaverOptions, "storage">;

/** A saver with an empty memory, and its log. */
export function saverOn(
  place: Place,
  options: SaverOptions = {},
): WaymarkSaver & { readonly logged: readonly LogLine[] } {
  const logger = recordingLogger();
  const saver = new WaymarkSaver({ storage: place.open(), ownsStorage: false, logger, ...options });
  return Object.assign(saver, { logged: logger.lines });
}

/** The headers of the writes in a thread's logs. */
export async function writesOf(place: Place, threadId: string): Promise<readonly RecordHeader[]> {
  const storage = place.open();
  const writes: RecordHeader[] = [];
  for (const { taskId = "" } of await collect(storage.tasks({ prefix: threadPrefix(threadId), order: "taskId" }))) {
    for await (const item of storage.log?.read({ taskId, order: "oldest", headersOnly: true }) ?? []) {
      if ("kind" in item) writes.push(toRecordHeader(item));
    }
  }
  return writes;
}

/** The config of a thread. */
export function threadOf(id: string, more: { checkpoint_id?: string; checkpoint_ns?: string } = {}) {
  return { configurable: { thread_id: id, ...more } };
}
