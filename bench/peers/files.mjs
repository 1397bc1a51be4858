// @ts-check
import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, readFileSync, readSync, writeSync } from "node:fs";
import { open, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import Conf from "conf";
import { JSONFilePreset } from "lowdb/node";
import { JsonFileAdapter } from "waymark/adapters/json-file";
// @ts-expect-error The package has no types.
import writeFileAtomic from "write-file-atomic";
import { writeDurably } from "../files.mjs";
import { allocated } from "./peer.mjs";
import { waymarkStore } from "./waymark.mjs";

/** The size of a checkpoint's header in Waymark's files. */
const HEADER_BYTES = 4096;

/** @type {readonly import("./peer.mjs").Peer[]} */
export const filePeers = [
  { name: "fs (bare)", packages: [], open: async (place) => bareStore(made(place)) },
  {
    name: "Waymark json-file",
    packages: ["waymark"],
    imports: ["waymark", "waymark/adapters/json-file"],
    open: async (place) => waymarkStore(new JsonFileAdapter({ path: place }), async () => allocatedIn(place)),
  },
  {
    name: "write-file-atomic",
    packages: ["write-file-atomic"],
    imports: ["write-file-atomic"],
    async open(place) {
      const file = (/** @type {string} */ name) => join(made(place), `${name}.json`);
      return {
        save: (task, state) => writeFileAtomic(file(task), JSON.stringify(state)),
        latest: async (task) => JSON.parse(await readFile(file(task), "utf8")),
        saveTurn: (state, turn) => writeFileAtomic(file(`${turn}`), JSON.stringify(state)),
        bytes: async () => allocatedIn(place),
        close: () => undefined,
      };
    },
  },
  {
    name: "conf",
    packages: ["conf"],
    imports: ["conf"],
    async open(place) {
      const confOf = remembered((task) => new Conf({ cwd: place, configName: task, projectName: "bench" }));
      return {
        save: (task, state) => confOf(task).set("state", state),
        latest: (task) => confOf(task).get("state"),
        close: () => undefined,
      };
    },
  },
  {
    name: "lowdb",
    packages: ["lowdb"],
    imports: ["lowdb", "lowdb/node"],
    async open(place) {
      const databaseOf = remembered((task) => JSONFilePreset(join(made(place), `${task}.json`), {}));
      return {
        async save(task, state) {
          const database = await databaseOf(task);
          database.data = state;
          await database.write();
        },
        async latest(task) {
          const database = await databaseOf(task);
          await database.read();
          return database.data;
        },
        close: () => undefined,
      };
    },
  },
];

/**
 * Does the minimum that makes a file durable: write, fsync, rename, fsync of the folder. If many files are written at
 * once, their folder is synced once. A history is one file, to which each turn appends its message.
 *
 * @param {string} folder
 * @returns {import("./peer.mjs").Store}
 */
function bareStore(folder) {
  const history = openSync(join(folder, "history"), "a");
  /** @type {Map<string, string>} */
  const newest = new Map();
  let number = 0;
  const nextName = (/** @type {string} */ task) => {
    const name = `${task}-${++number}.json`;
    newest.set(task, name);
    return name;
  };
  const readHeader = (/** @type {string} */ name) => {
    const file = openSync(join(folder, name), "r");
    readSync(file, Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0);
    closeSync(file);
  };
  return {
    save: (task, state) => writeDurably(folder, nextName(task), Buffer.from(JSON.stringify(state))),
    async saveAtOnce(tasks, state) {
      await Promise.all(
        tasks.map(async (task) => {
          const path = join(folder, nextName(task));
          const file = await open(`${path}.tmp`, "wx");
          await file.writeFile(JSON.stringify(state));
          await file.sync();
          await file.close();
          await rename(`${path}.tmp`, path);
        }),
      );
      const directory = await open(folder);
      await directory.sync();
      await directory.close();
    },
    latest: (task) => JSON.parse(readFileSync(join(folder, newest.get(task) ?? ""), "utf8")),
    async list(task) {
      const names = readdirSync(folder).filter((name) => name.startsWith(task));
      for (const name of names) readHeader(name);
      return names.length;
    },
    saveTurn({ messages }) {
      writeSync(history, JSON.stringify(messages.at(-1)));
      fsyncSync(history);
    },
    bytes: async () => allocated(join(folder, "history")),
    close: () => closeSync(history),
  };
}

/** @param {string} folder */
function made(folder) {
  mkdirSync(folder, { recursive: true });
  return folder;
}

/** @param {string} folder */
function allocatedIn(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + allocated(join(entry.parentPath, entry.name)), 0);
}

/**
 * @template Value
 * @param {(task: string) => Value} make
 */
function remembered(make) {
  /** @type {Map<string, Value>} */
  const values = new Map();
  return (/** @type {string} */ task) => {
    const value = values.get(task) ?? make(task);
    values.set(task, value);
    return value;
  };
}
