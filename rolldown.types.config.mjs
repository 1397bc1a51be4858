// @ts-check
// The types of a package, run in its folder: a file for each of the package's entries and a few that they share, since a
// file takes at least a block of the disk. What no entry leads to isn't in them.
import { existsSync, readFileSync } from "node:fs";
import { defineConfig } from "rolldown";
import { dts } from "rolldown-plugin-dts";

const { exports } = JSON.parse(readFileSync("package.json", "utf8"));
const tsconfig = ["tsconfig.build.json", "tsconfig.json"].find((file) => existsSync(file)) ?? "";
const { rootDir } = JSON.parse(readFileSync(tsconfig, "utf8")).compilerOptions;
/** @type {string[]} */
const files = Object.values(exports).flatMap(({ types }) => types ?? []);
const entries = files.map((file) => file.slice("./dist/".length, -".d.ts".length));

export default defineConfig({
  input: Object.fromEntries(entries.map((entry) => [entry, `./${rootDir}/${entry}.ts`])),
  // Packages stay packages, also this one by its own name.
  external: /^[^./]/,
  plugins: [dts({ emitDtsOnly: true, tsconfig })],
  output: { dir: "dist", chunkFileNames: "types/[name].ts" },
});
