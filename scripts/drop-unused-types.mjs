// @ts-check
// The last step of a build, run in the package's folder: removes the declarations that no entry of the
// package leads to. Otherwise they would be half of its files.
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";

const { exports } = JSON.parse(readFileSync("package.json", "utf8"));
/** @type {Set<string>} */
const used = new Set();
for (const { types } of Object.values(exports)) if (types !== undefined) follow(join(types));
for (const path of readdirSync("dist", { recursive: true, encoding: "utf8" })) {
  const file = join("dist", path);
  if (file.endsWith(".d.ts") && !used.has(file)) rmSync(file);
}

/** @param {string} file */
function follow(file) {
  if (used.has(file)) return;
  used.add(file);
  const imports = readFileSync(file, "utf8").matchAll(/(?:from |import\(|import )"(\.[^"]+)\.js"/g);
  for (const [, path = ""] of imports) follow(join(dirname(file), `${path}.d.ts`));
}
