// @ts-check
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { rolldown } from "rolldown";

const ROOT = join(import.meta.dirname, "../..");

/**
 * Bundles a module of the sources and its imports into one file, because the build has only the package's exports, and
 * Node can't run the TypeScript.
 *
 * @param {string} path - The module's path from the project's root.
 * @returns {Promise<string>} The file's URL.
 */
export async function bundled(path) {
  const file = join(ROOT, "node_modules/.cache/waymark-tests", path.replace(/\.\w+$/, ".mjs"));
  const bundle = await rolldown({
    input: join(ROOT, path),
    platform: "node",
    external: "better-sqlite3",
    transform: { target: "node20.19" },
    tsconfig: join(ROOT, "tsconfig.json"),
    resolve: { extensionAlias: { ".js": [".ts", ".js"] } },
  });
  await bundle.write({ file, codeSplitting: false });
  await bundle.close();
  return pathToFileURL(file).href;
}
