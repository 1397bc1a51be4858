// @ts-check
// What Node loads: a file for each entry, and what they share. The types beside them are rolldown.types.config.mjs's.
import { defineConfig } from "rolldown";

const entries = ["oneshot", "plans", "processes", "prp"].map((name) => [`${name}/index`, `src/${name}/index.ts`]);

export default defineConfig({
  input: Object.fromEntries(entries),
  platform: "node",
  // Packages stay packages.
  external: /^[^./]/,
  transform: { target: "node20.19" },
  // Doc comments are in the types.
  output: { dir: "dist", chunkFileNames: "shared/[name].js", comments: { jsdoc: false } },
});
