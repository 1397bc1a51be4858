import { expect } from "vitest";
import type { StorageAdapter } from "waymark";
import { isCorrupt } from "waymark/adapter";
import type { PostgresAdapter } from "waymark/adapters/postgres";
import { draft } from "../../conformance/drafts.js";
import { event } from "../../conformance/records.js";
import type { LogItem } from "../../src/contract/log.js";
import { collect, openAdapter } from "../support/postgres.js";

/** A text so long that only changes are stored, and several changes become a bundle. */
const LONG = "l".repeat(3_000);

/**
 * Starts eight writers that save and send events to four tasks while a server is disturbed. Each writer has its own
 * adapter and connections.
 */
export function startWriters(options: Parameters<typeof openAdapter>[0]) {
  const adapters = Array.from({ length: 8 }, () => openAdapter(options));
  const acknowledged = new Map<string, number>();
  let isOver = false;
  let wake: () => void = () => undefined;
  const write = async (adapter: PostgresAdapter, writer: number) => {
    const taskId = `task-${writer % 4}`;
    for (let number = 0; !isOver; number++) {
      const id = `w${writer}-${number}`;
      const body = JSON.stringify([id, LONG]);
      const isEvent = number % 2 === 1;
      const { log }: StorageAdapter = adapter;
      const sequence = await (isEvent && log
        ? log.append(taskId, [event("sent", { id, body })])
        : adapter.append(draft(taskId, id, { body })));
      acknowledged.set(`${taskId} ${id}`, sequence);
      wake();
    }
  };
  const writing = Promise.all(adapters.map(write));
  const saved = (count: number) => {
    const wanted = acknowledged.size + count;
    return new Promise<void>((resolve) => {
      wake = () => {
        if (acknowledged.size >= wanted) resolve();
      };
    });
  };
  return {
    /** Resolves once the writers have saved `count` more times. */
    saves: async (count: number) => void (await Promise.race([saved(count), writing])),
    /**
     * Ends the writers. Checks that exactly their saves are stored, each once.
     *
     * @returns The number of acknowledged saves.
     */
    end: async () => {
      isOver = true;
      await writing;
      const reader = openAdapter(options);
      const stored: [string, number][] = [];
      for (const taskId of ["task-0", "task-1", "task-2", "task-3"]) {
        const query = { taskId, order: "oldest" } as const;
        const { log }: StorageAdapter = reader;
        for (const item of await collect<LogItem>(log ? log.read(query) : reader.list(query))) {
          if (isCorrupt(item)) throw new Error(item.reason);
          stored.push([`${taskId} ${item.id}`, item.sequence]);
        }
      }
      expect(stored.sort()).toEqual([...acknowledged].sort());
      expect(await collect(reader.maintenance.repair({ leftoversOlderThanMs: 0, dryRun: true }))).toEqual([]);
      return acknowledged.size;
    },
  };
}
