// @ts-check
// The `prepack` script of each package, run in its folder: builds the package, and writes the manifest and the README
// for npm. With `--undo`, the `postpack` script: restores the repository's files.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, posix, relative, sep } from "node:path";
import { homePage } from "./home-page.mjs";

const root = join(import.meta.dirname, "..");
const folder = process.cwd();
const inRepository = relative(root, folder).split(sep).join("/");
/** Keeps the repository's files while the package is made. If packing was interrupted, the files are still here. */
const kept = join(folder, ".packing");
const FILES = ["package.json", "README.md"];

restore();
if (!process.argv.includes("--undo")) {
  const home = homePage();
  const manifest = JSON.parse(readFileSync("package.json", "utf8"));
  // Without an address, the README's links to pages of the repository would break on npm.
  if (process.env["npm_command"] === "publish" && home === undefined) {
    throw new Error(
      "Not published: this clone has no remote `origin`, which the package's links to its pages begin with.",
    );
  }
  build();
  mkdirSync(kept);
  for (const file of FILES) copyFileSync(file, join(kept, file));
  if (inRepository !== "") copyFileSync(join(root, "LICENSE"), "LICENSE");
  writeFileSync("package.json", `${JSON.stringify(published(manifest, home), undefined, 2)}\n`);
  writeFileSync("README.md", withWholeLinks(readFileSync("README.md", "utf8"), home));
}

function restore() {
  if (!existsSync(kept)) return;
  for (const file of FILES) if (existsSync(join(kept, file))) renameSync(join(kept, file), file);
  if (inRepository !== "") rmSync("LICENSE", { force: true });
  rmSync(kept, { recursive: true });
}

/** Builds a package. The other packages need the types from the SDK's build. */
function build() {
  const needsAll = inRepository === "" || !existsSync(join(root, "dist"));
  // The build prints to stderr, because stdout has npm's own answer (`npm pack --json`).
  execFileSync("npm", ["run", "build"], { cwd: needsAll ? root : folder, stdio: ["ignore", 2, 2] });
}

/**
 * Returns the manifest to publish. `waymark/kit` may change in any version, so packages depend on each other's exact
 * version.
 *
 * @param {any} manifest
 * @param {string | undefined} home
 */
function published(manifest, home) {
  const dependencies = Object.entries(manifest.dependencies).map(([name, range]) => [
    name,
    range.startsWith("file:")
      ? JSON.parse(readFileSync(join(folder, range.slice(5), "package.json"), "utf8")).version
      : range,
  ]);
  const where = home && {
    repository: { type: "git", url: `git+${home}.git`, ...(inRepository !== "" && { directory: inRepository }) },
    homepage: `${home}#readme`,
    bugs: `${home}/issues`,
  };
  return { ...manifest, ...where, dependencies: Object.fromEntries(dependencies) };
}

/**
 * Makes links to the repository's files begin with its address. Without an address, links become text and pictures are
 * removed.
 *
 * @param {string} text
 * @param {string | undefined} home
 */
function withWholeLinks(text, home) {
  return text.replace(/(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)/g, (_all, picture, words, path) => {
    if (home === undefined) return picture === "" ? words : "";
    const whole = posix.join(inRepository, path);
    return `${picture}[${words}](${home}/${picture === "" ? "blob" : "raw"}/HEAD/${whole})`;
  });
}
