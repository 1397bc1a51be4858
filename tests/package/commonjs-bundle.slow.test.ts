import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { rolldown } from "rolldown";
import { expect, it } from "vitest";
import { tempFolder } from "../support/temp-folder.js";

const ROOT = join(import.meta.dirname, "../..");
const FOLDER = join(ROOT, "node_modules/.cache/waymark-tests");
const RUN = fileURLToPath(new URL("../fixtures/run-in-a-context.cjs", import.meta.url));
const source = (path: string) => JSON.stringify(join(ROOT, path));

/** A program that does one round trip through each storage, and prints the results at the end. */
const PROGRAM = `
import { CheckpointManager, gzip } from ${source("src/index.ts")};
import { JsonFileAdapter } from ${source("adapters/files/json-file.ts")};
import { PostgresAdapter } from ${source("adapters/postgres/postgres.ts")};
import { SqliteAdapter } from ${source("adapters/sqlite/sqlite.ts")};

async function roundTrip(storage, transforms) {
  const manager = new CheckpointManager({ storage, transforms });
  await manager.save("t", { n: 1, at: new Date(7), text: "x".repeat(2_000_000) });
  const { state } = await manager.latest("t");
  await manager.close();
  return state.n + state.at.getTime();
}

async function main() {
  const folder = process.argv[2];
  const sqlite = await roundTrip(new SqliteAdapter({ path: folder + "/checkpoints.db" }));
  const files = await roundTrip(new JsonFileAdapter({ path: folder + "/files" }), [gzip()]);
  // Nothing listens at this port. Only a program that has loaded pg gets as far as this error.
  const postgres = new PostgresAdapter({ url: "postgres://127.0.0.1:1/nowhere" });
  const { code } = await postgres.get("t", "c1").catch((error) => error);
  console.log(JSON.stringify({ sqlite, files, postgres: code }));
}
void main();
`;

/** Bundles the program as one file in CommonJS. */
async function bundle(name: string): Promise<string> {
  const entry = join(await tempFolder(), "program.mjs");
  await writeFile(entry, PROGRAM);
  const made = await rolldown({
    input: entry,
    platform: "node",
    external: ["better-sqlite3", "pg"],
    // This is esbuild's form. Rolldown would write the file's URL instead.
    transform: { target: "node20.19", define: { "import.meta.url": "undefined" } },
    tsconfig: join(ROOT, "tsconfig.json"),
    resolve: { extensionAlias: { ".js": [".ts", ".js"] } },
  });
  const file = join(FOLDER, `${name}.cjs`);
  await made.write({ file, format: "cjs", codeSplitting: false });
  await made.close();
  return file;
}

const EXPECTED = { sqlite: 8, files: 8, postgres: "STORAGE_FAILED" };

it("loads better-sqlite3 and pg from a bundle in CommonJS, which has no import.meta", async () => {
  const file = await bundle("commonjs-bundle");
  const { stdout } = await promisify(execFile)(process.execPath, [file, await tempFolder()]);
  expect(JSON.parse(stdout)).toEqual(EXPECTED);
});

it("works in a node:vm context, as Jest runs tests, where Node's own errors are of another realm", async () => {
  const file = await bundle("commonjs-in-a-context");
  const { stdout } = await promisify(execFile)(process.execPath, [RUN, await tempFolder(), file]);
  expect(JSON.parse(stdout)).toEqual(EXPECTED);
});
