// @ts-check
// Before `npm pack` of the command: writes the version of waymark that it needs (in the repository, the parent folder),
// and copies the license. Afterwards, `--undo` restores the files.
import { copyFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const manifest = join(root, "cli", "package.json");
const license = join(root, "cli", "LICENSE");
const isUndo = process.argv.includes("--undo");
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const packed = JSON.parse(readFileSync(manifest, "utf8"));
packed.dependencies.waymark = isUndo ? "file:.." : `^${version}`;
writeFileSync(manifest, `${JSON.stringify(packed, undefined, 2)}\n`);
if (isUndo) rmSync(license, { force: true });
else copyFileSync(join(root, "LICENSE"), license);
