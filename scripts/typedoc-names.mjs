// @ts-check
// A plugin for TypeDoc that names modules as they are imported.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Converter } from "typedoc";

const { compilerOptions } = JSON.parse(readFileSync(join(import.meta.dirname, "..", "tsconfig.json"), "utf8"));
/** The import names, by the names that TypeDoc derives from the files. */
const importNames = new Map(
  Object.entries(compilerOptions.paths).map(([name, [file]]) => [
    file.replace(/^\.\/|\.ts$/g, "").replace(/\/index$/, ""),
    name,
  ]),
);

/** @param {import("typedoc").Application} app */
export function load(app) {
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    for (const module of project.children ?? []) module.name = importNames.get(module.name) ?? module.name;
  });
}
