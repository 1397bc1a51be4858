// @ts-check
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { benchSyncsOfASlowDisk } from "./syncs.mjs";

const SYNC_MS = 5;
const LIBRARY = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
static int slowly(const char *name, int file) {
  usleep(${SYNC_MS * 1000});
  return ((int (*)(int)) dlsym(RTLD_NEXT, name))(file);
}
int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
`;

/**
 * Repeats {@link benchSyncsOfASlowDisk} in a process whose syncs take 5 ms longer, as on a cloud's disk. A preloaded
 * library delays each sync, which needs Linux and a C compiler.
 *
 * @param {string} folder
 */
export async function benchSlowDisk(folder) {
  if (process.env["LD_PRELOAD"]) return benchSyncsOfASlowDisk(folder, SYNC_MS);
  const [source, library] = ["slow.c", "slow.so"].map((name) => join(folder, name));
  writeFileSync(source ?? "", LIBRARY);
  const made = spawnSync("cc", ["-shared", "-fPIC", "-o", library ?? "", source ?? "", "-ldl"], { stdio: "inherit" });
  if (made.error !== undefined || made.status !== 0) return console.log("(needs Linux and a C compiler)");
  const runs = [join(import.meta.dirname, "run.mjs"), "slow-disk"];
  spawnSync(process.execPath, runs, { stdio: "inherit", env: { ...process.env, LD_PRELOAD: library } });
}
