#!/usr/bin/env node
// `npx waymark` where waymark-cli is missing. If both packages are installed, npm may link either one's file as `waymark`, so
// this one runs the command wherever it finds it.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const command = find();
if (command === undefined) {
  process.stderr.write("waymark: the command is a package of its own. Run: npm install waymark-cli\n");
  process.exitCode = 1;
} else {
  await import(pathToFileURL(command).href);
}

function find() {
  try {
    const paths = [process.cwd(), import.meta.dirname];
    return createRequire(import.meta.url).resolve("waymark-cli/bin/waymark.js", { paths });
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") throw error;
    return undefined;
  }
}
