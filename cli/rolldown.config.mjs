// @ts-check
// What Node loads: one file, and one for each part that is loaded when it is used. Node takes nearly a millisecond for
// every file of an import, and completion runs at a keystroke.
import { copyFileSync } from "node:fs";
import { defineConfig } from "rolldown";

const command = defineConfig({
  input: "src/main.ts",
  platform: "node",
  // Packages stay packages.
  external: /^[^./]/,
  transform: { target: "node20.19" },
  output: { dir: "dist", chunkFileNames: "[name].js", comments: { jsdoc: false } },
});

// The browser loads one file, with Preact in it. The page and its style are copied beside it.
const page = defineConfig({
  input: "page/src/main.tsx",
  platform: "browser",
  tsconfig: "page/tsconfig.json",
  transform: { target: "es2023" },
  output: { file: "dist/page/app.js", minify: true, comments: false },
  plugins: [
    {
      name: "waymark:page",
      writeBundle() {
        for (const file of ["index.html", "app.css"]) copyFileSync(`page/${file}`, `dist/page/${file}`);
      },
    },
  ],
});

export default [command, page];
