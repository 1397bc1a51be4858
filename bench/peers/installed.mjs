// @ts-check
// The peers aren't dependencies of the package. LangGraph's savers and the drivers, which the tests also need, are
// installed in the project's node_modules. The other peers are installed in this folder's node_modules.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join, sep } from "node:path";

const HERE = import.meta.dirname;
const ROOT = dirname(dirname(HERE));
const npm = process.platform === "win32" ? "npm.cmd" : "npm";

/**
 * Installs the packages that the folder's package.json pins, unless they are installed.
 *
 * @param {string} folder
 */
export function installPackages(folder) {
  const { dependencies } = readManifest(folder);
  const current = Object.entries(dependencies).every(
    ([name, version]) =>
      existsSync(join(folder, "node_modules", name)) &&
      readManifest(join(folder, "node_modules", name)).version === version,
  );
  if (current) return;
  console.log("Installing the peers; a driver may have to be compiled, which takes a minute …");
  // A lock file would be another list to keep up to date, and might name a registry's host.
  const flags = ["--omit=optional", "--no-package-lock", "--no-audit", "--no-fund"];
  execFileSync(npm, ["install", "--prefix", folder, ...flags], { cwd: folder, stdio: "inherit", shell: sep === "\\" });
}

/**
 * @param {string} name
 * @param {string} [from] - The importing folder.
 */
export function versionOf(name, from = HERE) {
  return readManifest(folderOf(name, from)).version;
}

/**
 * Returns the bytes of packages and of everything they need at run time, without a compiler's intermediate files of
 * native modules.
 *
 * @param {readonly string[]} names
 */
export function installedBytes(names) {
  /** @type {Map<string, number>} */
  const sizes = new Map();
  const visit = (/** @type {string} */ name, /** @type {string} */ from) => {
    const folder = folderOf(name, from);
    if (sizes.has(folder)) return;
    sizes.set(folder, folder === ROOT ? packedBytes() : bytesIn(folder));
    const { dependencies, peerDependencies, peerDependenciesMeta } = readManifest(folder);
    const required = Object.keys(peerDependencies ?? {}).filter((peer) => !peerDependenciesMeta?.[peer]?.optional);
    for (const needed of [...Object.keys(dependencies ?? {}), ...required]) visit(needed, folder);
  };
  for (const name of names) visit(name, HERE);
  return [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
}

/**
 * Returns the folder of a package, found like Node finds it.
 *
 * @param {string} name
 * @param {string} from
 * @returns {string}
 */
function folderOf(name, from) {
  const folder = join(from, "node_modules", name);
  if (existsSync(join(folder, "package.json"))) return realpathSync(folder);
  if (dirname(from) === from) throw new Error(`The package "${name}" is not installed. Run "npm ci" in ${ROOT}.`);
  return folderOf(name, dirname(from));
}

/** @param {string} folder */
function readManifest(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

/** @param {string} folder */
function bytesIn(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => {
      const [first, second, ...rest] = path.slice(folder.length + 1).split(sep);
      const isModule = second === "Release" && rest.length === 1 && path.endsWith(".node");
      return first !== "node_modules" && (first !== "build" || isModule);
    })
    .reduce((sum, path) => sum + statSync(path).size, 0);
}

/** Returns the bytes of the package that npm would publish. */
function packedBytes() {
  const flags = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const [packed] = Object.values(
    JSON.parse(
      execFileSync(npm, flags, {
        cwd: ROOT,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "ignore"],
        shell: sep === "\\",
      }),
    ),
  );
  return packed.unpackedSize;
}
