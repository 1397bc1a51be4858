// @ts-check
// Builds the JavaScript: a file for each entry, and the files that they share. rolldown.types.config.mjs builds the
// types.
import { defineConfig } from "rolldown";

const entries = ["oneshot", "plans", "processes", "prp"].map((name) => [`${name}/index`, `src/${name}/index.ts`]);

export default defineConfig({
  input: Object.fromEntries(entries),
  platform: "node",
  // Imported packages aren't bundled.
  external: /^[^./]/,
  transform: { target: "node20.19" },
  // Doc comments are in the types, so the JavaScript has none.
  output: { dir: "dist", chunkFileNames: "shared/[name].js", comments: { jsdoc: false } },
});
