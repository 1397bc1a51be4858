// Tests bundled programs in a folder without the build.
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import * as esbuild from "esbuild";
import { rollup } from "rollup";
import { build as viteBuild } from "vite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import webpack from "webpack";

const ROOT = join(import.meta.dirname, "../..");
const PACKAGES = join(ROOT, "node_modules");

/** A program that saves to SQLite and reads back, calls PostgreSQL where nothing listens, and prints the results. */
const PROGRAM = `
import { CheckpointManager } from "waymark";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { SqliteAdapter } from "waymark/adapters/sqlite";

const told = ({ name, code, message }) => ({ name, code, message });

async function main() {
  const manager = new CheckpointManager({ storage: new SqliteAdapter({ path: process.argv[2] }) });
  const sqlite = await manager
    .save("t", { n: 1 })
    .then(() => manager.latest("t"))
    .then(({ state }) => state, told);
  const storage = new PostgresAdapter({ url: "postgres://127.0.0.1:1/nowhere" });
  const postgres = await storage.get("t", "c1").catch(told);
  console.log(JSON.stringify({ sqlite, postgres }));
}
void main();
`;

/** A program that loads zod. */
const WITH_ZOD = `
import { checkpointStateSchema } from "waymark/phase-checkpoints";
console.log(typeof checkpointStateSchema);
`;

/** A program that passes the driver, which stays an external package. */
const WITH_DRIVER = `
import Database from "better-sqlite3";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { CheckpointManager } from "waymark";

async function main() {
  const manager = new CheckpointManager({ storage: new SqliteAdapter({ path: process.argv[2], driver: Database }) });
  await manager.save("t", { n: 1 });
  console.log(JSON.stringify((await manager.latest("t")).state));
}
void main();
`;

type Format = "esm" | "cjs";

interface Build {
  readonly folder: string;
  readonly entry: string;
  readonly file: string;
  readonly format: Format;
}

const EXTERNAL = ["better-sqlite3"];

/** The bundlers. Each makes one file, and returns the warnings. */
const BUNDLERS: Readonly<Record<string, (build: Build) => Promise<readonly string[]>>> = {
  async esbuild({ entry, file, format }) {
    const { warnings } = await esbuild.build({
      ...{ entryPoints: [entry], outfile: file, format, bundle: true, platform: "node", logLevel: "silent" },
      ...{ external: EXTERNAL, minify: true },
    });
    // esbuild warns of every import.meta in CommonJS.
    return warnings.filter(({ id }) => id !== "empty-import-meta").map(({ text }) => text);
  },

  async rollup({ entry, file, format }) {
    const warnings: string[] = [];
    const made = await rollup({
      input: entry,
      external: (id) => id.startsWith("node:") || EXTERNAL.includes(id),
      plugins: [
        {
          name: "packages",
          resolveId: (id, importer) => (importer ? createRequire(importer).resolve(id) : undefined),
        },
      ],
      onwarn: ({ message }) => warnings.push(message),
    });
    await made.write({ file, format });
    await made.close();
    return warnings;
  },

  async vite({ folder, entry, file, format }) {
    const warnings: string[] = [];
    await viteBuild({
      ...{ root: folder, configFile: false, logLevel: "warn" },
      customLogger: {
        ...{ hasWarned: false, hasErrorLogged: () => false, clearScreen: () => undefined, info: () => undefined },
        ...{ warn: (text) => warnings.push(text), warnOnce: (text) => warnings.push(text) },
        error: (text) => warnings.push(text),
      },
      ssr: { noExternal: true },
      build: {
        ...{ ssr: entry, outDir: dirname(file), emptyOutDir: false, minify: true },
        rolldownOptions: { external: EXTERNAL, output: { format, entryFileNames: basename(file) } },
      },
    });
    return warnings;
  },

  async webpack({ folder, entry, file, format }) {
    const compiler = webpack({
      ...{ mode: "production", target: "node20", context: folder, entry },
      output: {
        ...{ path: dirname(file), filename: basename(file) },
        ...(format === "esm" && { module: true, chunkFormat: "module" }),
      },
      experiments: { outputModule: format === "esm" },
      // Minifying takes half a minute, and changes only names.
      optimization: { minimize: false },
      externals: Object.fromEntries(EXTERNAL.map((name) => [name, `node-commonjs ${name}`])),
    });
    const stats = await promisify(compiler.run.bind(compiler))();
    await promisify(compiler.close.bind(compiler))();
    const { errors = [], warnings = [] } = stats?.toJson({ all: false, errors: true, warnings: true }) ?? {};
    return [...errors, ...warnings].map(({ message }) => message);
  },
};

const CASES = Object.keys(BUNDLERS).flatMap((bundler) =>
  (["esm", "cjs"] as const).map((format) => [bundler, format] as const),
);

const folders: string[] = [];
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))));

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "waymark-"));
  folders.push(folder);
  return folder;
}

/** Bundles the program with Waymark as npm installs it. The build's folder is gone afterwards. */
async function bundle(bundler: string, format: Format, program: string): Promise<string> {
  const folder = await newFolder();
  const packages = join(folder, "node_modules");
  await mkdir(packages);
  for (const part of ["dist", "package.json"]) {
    await cp(join(ROOT, part), join(packages, "waymark", part), { recursive: true });
  }
  for (const name of ["nanoid", "proper-lockfile", "graceful-fs", "retry", "signal-exit"]) {
    await cp(join(PACKAGES, name), join(packages, name), { recursive: true });
  }
  const entry = join(folder, "program.mjs");
  await writeFile(entry, program);
  const file = join(await newFolder(), format === "esm" ? "bundle.mjs" : "bundle.cjs");
  expect(await BUNDLERS[bundler]?.({ folder, entry, file, format })).toEqual([]);
  await rm(folder, { recursive: true });
  folders.splice(folders.indexOf(folder), 1);
  return file;
}

/** Runs the bundle in a new folder that has only these packages. */
async function run(file: string, packages: readonly string[]): Promise<string> {
  const folder = await newFolder();
  const program = join(folder, basename(file));
  await cp(file, program);
  await mkdir(join(folder, "node_modules"));
  for (const name of packages) await symlink(join(PACKAGES, name), join(folder, "node_modules", name));
  const { stdout } = await promisify(execFile)(process.execPath, [program, join(folder, "checkpoints.db")]);
  return stdout.trim();
}

describe.each(CASES)("a bundle by %s in %s", (bundler, format) => {
  let file = "";
  beforeAll(async () => {
    file = await bundle(bundler, format, PROGRAM);
  });

  it("loads better-sqlite3 and pg from where it runs", async () => {
    expect(JSON.parse(await run(file, ["better-sqlite3", "pg"]))).toEqual({
      sqlite: { n: 1 },
      postgres: { name: "StorageError", code: "STORAGE_FAILED", message: expect.stringContaining("ECONNREFUSED") },
    });
  });

  it("fails with a StorageError that says what to do where they aren't installed", async () => {
    const { sqlite, postgres } = JSON.parse(await run(file, []));
    expect([sqlite, postgres]).toMatchObject(Array(2).fill({ name: "StorageError", code: "STORAGE_FAILED" }));
    expect(sqlite.message).toMatch(
      /Cannot find module 'better-sqlite3'\..*npm install .*where the bundle runs.*`driver`/,
    );
    expect(postgres.message).toMatch(/Cannot find module 'pg'\..*npm install pg.*where the bundle runs.*`pool`/);
  });

  it("takes a driver that the program passes in", async () => {
    expect(await run(await bundle(bundler, format, WITH_DRIVER), ["better-sqlite3"])).toBe('{"n":1}');
  });

  it("loads zod from where it runs", async () => {
    expect(await run(await bundle(bundler, format, WITH_ZOD), ["zod"])).toBe("object");
  });
});
