// @ts-check
// What Node loads: one file, and one for each part that is loaded when it is used. Node takes nearly a millisecond for
// every file of an import, and completion runs at a keystroke.
import { defineConfig } from "rolldown";

export default defineConfig({
  input: "src/main.ts",
  platform: "node",
  // Packages stay packages.
  external: /^[^./]/,
  transform: { target: "node20.19" },
  output: { dir: "dist", chunkFileNames: "[name].js", comments: { jsdoc: false } },
});
