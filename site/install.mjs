// @ts-check
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";

/** The registry can't be reached, and the packages aren't installed. */
export class NoNetworkError extends Error {
  name = "NoNetworkError";
}

/** What npm says without a network. */
const NO_NETWORK = /ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|ECONNREFUSED|ECONNRESET|EHOSTUNREACH/;

/**
 * Installs the packages that the folder's package.json pins, unless they are installed.
 *
 * @param {string} folder
 * @throws {NoNetworkError}
 */
export function installPackages(folder) {
  const { dependencies } = readManifest(folder);
  const isCurrent = Object.entries(dependencies).every(([name, version]) => {
    const installed = join(folder, "node_modules", name);
    return existsSync(join(installed, "package.json")) && readManifest(installed).version === version;
  });
  if (isCurrent) return;
  console.log("Installing VitePress, which only the site needs …");
  // TypeDoc is the project's own. No lock file: it may name a registry's host.
  const flags = ["--omit=peer", "--no-package-lock", "--no-audit", "--no-fund"];
  try {
    execFileSync(sep === "\\" ? "npm.cmd" : "npm", ["install", "--prefix", folder, ...flags], {
      cwd: folder,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      shell: sep === "\\",
    });
  } catch (error) {
    const said = error instanceof Error && "stderr" in error ? String(error.stderr) : String(error);
    if (NO_NETWORK.test(said)) {
      throw new NoNetworkError("The registry can't be reached, so VitePress can't be installed.", { cause: error });
    }
    throw new Error(`VitePress can't be installed:\n${said}`, { cause: error });
  }
}

/** @param {string} folder */
function readManifest(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}
