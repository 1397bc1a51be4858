// @ts-check
// The peers to compare, and the servers that each peer needs.
import { statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";

/**
 * A peer: a program in this folder that begins or resumes the run.
 *
 * @typedef {object} Peer
 * @property {string} name
 * @property {string} file
 * @property {string} services - The servers that must run in addition to the program.
 * @property {(workspace: Workspace) => string} storage - Returns the program's RESUME_STORAGE.
 * @property {(workspace: Workspace, server: Server) => Promise<number>} bytes - Returns the bytes that one run takes.
 * @property {string} [packageName] - The package whose version is shown.
 * @property {Readonly<Record<string, string>>} [env] - More variables for the program.
 */

/** @typedef {{ folder: string, name: string }} Workspace */
/** @typedef {{ url: string, query: (sql: string) => Promise<readonly Record<string, string>[]> }} Server */

/** @returns {readonly Peer[]} */
export function peersOn(/** @type {Server} */ { url }) {
  return [
    {
      name: "Waymark SQLite",
      file: "waymark.mjs",
      services: "none",
      storage: ({ folder }) => `sqlite:${join(folder, "runs.db")}`,
      bytes: ({ folder }) => bytesIn(folder),
    },
    {
      name: "Waymark SQLite, normal",
      file: "waymark-normal.mjs",
      services: "none",
      storage: ({ folder }) => join(folder, "runs.db"),
      bytes: ({ folder }) => bytesIn(folder),
    },
    {
      name: "Waymark files",
      file: "waymark.mjs",
      services: "none",
      storage: ({ folder }) => `files:${join(folder, "runs")}`,
      bytes: ({ folder }) => bytesIn(folder),
    },
    {
      name: "Waymark PostgreSQL",
      file: "waymark.mjs",
      services: "PostgreSQL",
      storage: ({ name }) => `${url}?schema=${name}`,
      bytes: ({ name }, server) => bytesOf(name, server),
    },
    {
      name: "DBOS",
      file: "dbos.mjs",
      services: "PostgreSQL",
      storage: ({ name }) => name,
      bytes: ({ name }, server) => bytesOf(name, server),
      packageName: "@dbos-inc/dbos-sdk",
    },
    {
      name: "DBOS, one version",
      file: "dbos.mjs",
      env: { DBOS_KEEPS_VERSION: "1" },
      services: "PostgreSQL",
      storage: ({ name }) => name,
      bytes: ({ name }, server) => bytesOf(name, server),
    },
    {
      name: "OpenWorkflow",
      file: "openworkflow.mjs",
      services: "PostgreSQL",
      storage: ({ name }) => name,
      bytes: ({ name }, server) => bytesOf(name, server),
      packageName: "openworkflow",
    },
    {
      name: "LangGraph, SqliteSaver",
      file: "langgraph.mjs",
      services: "none",
      storage: ({ folder }) => join(folder, "runs.db"),
      bytes: ({ folder }) => bytesIn(folder),
      packageName: "@langchain/langgraph",
    },
  ];
}

/** @param {string} folder */
async function bytesIn(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name !== "ledger");
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

/**
 * @param {string} schema
 * @param {Server} server
 */
async function bytesOf(schema, { query }) {
  const [row] = await query(
    `SELECT sum(pg_total_relation_size(c.oid)) AS bytes FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = '${schema}' AND c.relkind = 'r'`,
  );
  return Number(row?.["bytes"] ?? 0);
}
