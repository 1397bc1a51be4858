// @ts-check
// What Node loads: a file for each of the package's entries and a few that they share, since Node takes nearly a millisecond
// for every file of an import. The types beside them are rolldown.types.config.mjs's.
import { defineConfig } from "rolldown";
import manifest from "./package.json" with { type: "json" };

const entries = Object.values(manifest.exports)
  .flatMap((target) => (typeof target === "string" ? [] : [target.default]))
  // The conformance suite starts it as a process.
  .concat("./dist/conformance/child.js")
  .map((file) => file.slice("./dist/".length, -".js".length));

export default defineConfig({
  input: Object.fromEntries(entries.map((entry) => [entry, `${entry}.ts`])),
  platform: "node",
  // Packages stay packages: those of Node, of npm, and this one's own name.
  external: /^[^./]/,
  transform: { target: "node20.19" },
  output: {
    dir: "dist",
    chunkFileNames: "shared/[name].js",
    // They are in the types.
    comments: { jsdoc: false },
    // Names and lines stay as they are: Node prints the line that threw an uncaught error.
    minify: { compress: true, mangle: false, codegen: { removeWhitespace: false } },
    codeSplitting: {
      groups: [
        // The last one is too small for a file of its own.
        { name: "core", test: /\/src\/(contract|manager|codec|checkpoint-manager)\b|\/conformance\/load-module\./ },
        { name: "files", test: /\/adapters\/files\// },
        { name: "sqlite", test: /\/adapters\/sqlite\// },
        { name: "sql", test: /\/adapters\/sql\// },
        { name: "postgres", test: /\/adapters\/postgres\// },
        // Small files share one, since each takes a block of the disk.
        { name: "systems", test: /\/systems\/((json-object|run-lock|schema-issues)|oneshot\/staleness)\.ts/ },
        { name: "zod", test: /\/systems\/(zod|iso-date)\.ts/ },
      ],
    },
  },
});
