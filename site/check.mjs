// @ts-check
// Builds the site and checks it: no dead link, every page two clicks from the start, no finding of axe. Without a network it is
// skipped unless VitePress is installed; without Chromium only the pages' links are checked.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { findingsInChromium } from "./in-chromium.mjs";
import { installPackages, NoNetworkError } from "./install.mjs";
import { linkFindings } from "./link-check.mjs";

const here = import.meta.dirname;
const site = join(here, "dist");

if (canBuild()) {
  execFileSync(process.execPath, [join(here, "build.mjs")], { stdio: "inherit" });
  const findings = [...linkFindings(site), ...(await findingsInChromium(site))];
  for (const finding of findings) console.error(finding);
  console.log(`The site has ${findings.length} findings.`);
  process.exitCode = findings.length === 0 ? 0 : 1;
}

function canBuild() {
  try {
    installPackages(here);
    return true;
  } catch (error) {
    if (!(error instanceof NoNetworkError)) throw error;
    console.log(`Skipped. ${error.message}`);
    return false;
  }
}
