// @ts-check
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { rolldown } from "rolldown";

const ROOT = join(import.meta.dirname, "../..");

/**
 * The build holds what the package exports. A process that needs another module of ours, or a program that imports one, gets
 * it by this, from the sources: as one file with all that it imports, or Node couldn't read the TypeScript.
 *
 * @param {string} path From the project's root.
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
