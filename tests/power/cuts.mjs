// @ts-check
// Cuts the power of real file systems under writers, and checks the stores: node tests/power/cuts.mjs
// --disks=lazyfs,ext4
// --storages=sqlite,json-file --runs=5 --cuts=8 --seed=1. Run it manually: it needs Linux, root, and a build of the
// packages.
//
// - `lazyfs`: github.com/dsrhaslab/lazyfs, with its path in $LAZYFS (to build it: libfuse3-dev, libspdlog-dev,
// libtoml11-dev),
//   and fuse3. It keeps unsynced data only in memory, so a cut loses it; names are kept. The last cut of a run is one
// of
//   LazyFS's faults: between two calls, or within a write.
// - `ext4`, `ext4-writeback`, `xfs`, `btrfs` (e2fsprogs, xfsprogs, btrfs-progs): an image is copied in the state that
// its
//   device has at one moment, and the copy is mounted. Names may also be lost. The image is on an xfs, whose clones of
// a
//   file are atomic.
//
// If `sqlite-normal` loses nothing, the cuts prove nothing.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { randomBy } from "./random.mjs";

/** @typedef {{ mounted: string, cut: (name: string) => void, end: (writers: Writer[]) => Promise<string>, storeOf: (name: string) => string }} Disk */
/** @typedef {Awaited<ReturnType<typeof startWriter>>} Writer */

const { values } = parseArgs({
  options: {
    disks: { type: "string", default: "lazyfs,ext4,ext4-writeback,xfs,btrfs" },
    storages: { type: "string", default: "sqlite,json-file,task-file,sqlite-normal" },
    runs: { type: "string", default: "5" },
    cuts: { type: "string", default: "8" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
  },
});
const LAZYFS = process.env["LAZYFS"] ?? "lazyfs";
const STORE = fileURLToPath(new URL("store.mjs", import.meta.url));
/**
 * The options of mount. `nouuid` is needed because a copy has the UUID of its original. @type {Record<string, string>}
 */
const OPTIONS = { ext4: "commit=1", "ext4-writeback": "commit=1,data=writeback", xfs: "nouuid", btrfs: "commit=1" };
// The disks are in memory, so that syncs take no time.
const place = mkdtempSync("/dev/shm/power-");
const host = join(place, "host");
mkdirSync(host);
run("truncate", "-s", "6G", `${host}.img`);
run("mkfs.xfs", "-q", "-m", "reflink=1", `${host}.img`);
run("mount", "-o", "loop", `${host}.img`, host);
/** @type {Record<string, Record<"cuts" | "acknowledged" | "restarts" | "cutsWithLoss" | "cutsWithLazyLoss" | "wrong", number>>} */
const totals = {};
console.log(
  Object.entries(values)
    .map(([name, value]) => `--${name}=${value}`)
    .join(" "),
);
for (let seed = Number(values.seed); seed < Number(values.seed) + Number(values.runs); seed++) {
  for (const disk of values.disks.split(",")) {
    for (const storage of values.storages.split(",")) {
      await cutAll(disk, storage, seed).catch((error) => {
        process.exitCode = 1;
        console.log(`${disk} ${storage} --seed=${seed} failed:`, error);
      });
    }
  }
}
run("umount", "-l", host);
console.table(totals);
if (process.exitCode === undefined) rmSync(place, { recursive: true });
else console.log(`What is wrong is kept in ${place}.`);

/** @param {string} diskName @param {string} storage @param {number} seed */
async function cutAll(diskName, storage, seed) {
  const random = randomBy(seed * 7_919);
  const folder = join(place, `${diskName}-${storage}-${seed}`);
  for (const made of [folder, join(folder, "mounted")]) mkdirSync(made);
  const disk = diskName === "lazyfs" ? await mountLazyFs(folder, storage, random) : mountImage(folder, diskName);
  const ledgers = Array.from({ length: 1 + random(2) }, (_, at) => join(folder, `w${at}`));
  const start = (/** @type {string} */ ledger) =>
    startWriter(storage, join(disk.mounted, "store"), ledger, random(1e9));
  const writers = await Promise.all(ledgers.map(start));
  const read = () => ledgers.map((ledger) => readFileSync(ledger, "utf8"));
  const cuts = [];
  for (let number = 1; number <= Number(values.cuts); number++) {
    await pause(random(1_200));
    const early = writers.find(({ hasEnded }) => hasEnded());
    if (early) throw new Error(`A writer ended too early: ${early.complaint()} ${await disk.end(writers)}`);
    const isLast = number === Number(values.cuts);
    const before = read();
    if (!isLast) disk.cut(`${number}`);
    const what = isLast ? await disk.end(writers) : "as it was";
    // LazyFS has ended, and without it no calls are acknowledged, so all acknowledged calls were before the cut.
    const isEnd = isLast && diskName === "lazyfs";
    cuts.push({ name: isEnd ? "root" : `${number}`, what, before: isEnd ? read() : before, after: read() });
  }
  const stores = cuts.map((cut) => ({ ...cut, folder: disk.storeOf(cut.name) }));
  const restarts = stores.map(({ folder: store }) => readRestarts(join(store, "checkpoints.db-wal")));
  writeFileSync(join(folder, "cuts.json"), JSON.stringify(stores));
  const printed = execFileSync(process.execPath, [STORE, "check", storage, join(folder, "cuts.json")], {
    encoding: "utf8",
  });
  const name = `${diskName} ${storage}`;
  const sum = totals[name] ?? { cuts: 0, acknowledged: 0, restarts: 0, cutsWithLoss: 0, cutsWithLazyLoss: 0, wrong: 0 };
  totals[name] = sum;
  for (const [at, line] of printed.trim().split("\n").entries()) {
    const { acknowledged, lazyLost, wrong } = /** @type {import("./store.mjs").Verdict} */ (JSON.parse(line));
    const mayLose = (/** @type {string} */ one) => storage === "sqlite-normal" && one.startsWith("lost");
    const bad = wrong.filter((one) => !mayLose(one));
    sum.cuts += 1;
    sum.acknowledged += acknowledged;
    sum.restarts += restarts[at] ?? 0;
    sum.cutsWithLoss += wrong.some(mayLose) ? 1 : 0;
    sum.cutsWithLazyLoss += lazyLost > 0 ? 1 : 0;
    sum.wrong += bad.length;
    const found = `${acknowledged} acknowledged, ${restarts[at]} restarts, ${wrong.length - bad.length} lost, ${bad.length} wrong`;
    console.log(`${diskName} ${storage} --seed=${seed}, cut ${at + 1}, ${cuts[at]?.what}: ${found}`);
    if (bad.length > 0) console.log(bad.slice(0, 5).join("\n"));
    if (bad.length > 0) process.exitCode = 1;
  }
  if (process.exitCode === undefined) rmSync(folder, { recursive: true });
}

/**
 * Mounts LazyFS. A power cut leaves what it has written to its root. @param {string} folder @param {string} storage
 * @param {(below: number) => number} random @returns {Promise<Disk>}
 */
async function mountLazyFs(folder, storage, random) {
  const [mounted, fifo, config] = ["mounted", "faults", "lazyfs.toml"].map((name) => join(folder, name));
  // The path is short: LazyFS reads no more than 100 bytes of a command, and the command for a torn write has the path.
  const root = join(place, "r");
  if (!mounted || !fifo || !config) throw new Error("unreachable");
  mkdirSync(root);
  const cache = '[cache]\napply_eviction=false\n[cache.simple]\ncustom_size="0.25GB"\nblocks_per_page=1\n';
  writeFileSync(config, `[faults]\nfifo_path="${fifo}"\n${cache}[filesystem]\nlog_all_operations=false\nlogfile=""\n`);
  const options = ["--config-path", config, "-o", "modules=subdir", "-o", `subdir=${root}`, "-f"];
  const lazyFs = spawn(LAZYFS, [mounted, ...options], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(lazyFs, "exit");
  let said = "";
  lazyFs.stdout.on("data", (data) => (said += data));
  await until(() => statSync(mounted).dev !== statSync(folder).dev, "LazyFS is mounted");
  const file = { "json-file": "w0-0/log.jsonl", "task-file": "w0-0/checkpoints.log.jsonl" }[storage];
  const torn = join(root, "store", file ?? "checkpoints.db-wal");
  const call = ["write", "fsync", "rename", "create", "unlink"][random(file ? 5 : 2)];
  const fault = [
    "clear-cache",
    `crash::timing=${random(2) ? "before" : "after"}::op=${call}::from_rgx=.*`,
    `torn-op::file=${torn}::persist=${1 + random(4)}::parts=${4 + random(3)}`,
  ][random(3)];
  return {
    mounted,
    storeOf: (name) => join(folder, name, "store"),
    cut: (name) => {
      lazyFs.kill("SIGSTOP");
      run("cp", "-a", root, join(folder, name));
      lazyFs.kill("SIGCONT");
    },
    end: async (writers) => {
      if (fault === "clear-cache") await Promise.all(writers.map(({ kill }) => kill()));
      writeFileSync(fifo, `lazyfs::${fault}\n`);
      if (fault === "clear-cache") await until(() => said.includes("cache is cleared"), "the cache is cleared");
      else await Promise.race([ended, pause(2_000)]);
      const what = fault === "clear-cache" || lazyFs.signalCode !== null ? `${fault}` : `killed, without ${fault}`;
      lazyFs.kill("SIGKILL");
      await ended;
      await Promise.all(writers.map(({ kill }) => kill()));
      run("umount", "-l", mounted);
      run("mv", root, join(folder, "root"));
      return what;
    },
  };
}

/** @param {string} folder @param {string} system @returns {Disk} */
function mountImage(folder, system) {
  const mounted = join(folder, "mounted");
  const images = join(host, basename(folder));
  mkdirSync(images);
  const options = `loop,${OPTIONS[system]}`;
  const image = join(images, "image");
  run("truncate", "-s", "512M", image);
  run(`mkfs.${system.split("-")[0]}`, "-q", image);
  run("mount", "-o", options, image, mounted);
  const cut = (/** @type {string} */ name) => run("cp", "--reflink=always", image, join(images, name));
  return {
    mounted,
    cut,
    end: async (writers) => {
      cut(`${values.cuts}`);
      await Promise.all(writers.map(({ kill }) => kill()));
      run("umount", mounted);
      return "as it was";
    },
    storeOf: (name) => {
      run("mount", "-o", options, join(images, name), mounted);
      run("cp", "-a", mounted, join(folder, name));
      run("umount", mounted);
      if (name === values.cuts) rmSync(images, { recursive: true });
      return join(folder, name, "store");
    },
  };
}

/** @param {string} storage @param {string} store @param {string} ledger @param {number} seed */
async function startWriter(storage, store, ledger, seed) {
  const child = spawn(process.execPath, [STORE, "write", storage, store, ledger, `${seed}`], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let complaint = "";
  child.stderr.on("data", (data) => (complaint += data));
  const ended = once(child, "exit");
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  await until(() => existsSync(ledger) || hasEnded(), "the writer has begun");
  const kill = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  return { hasEnded, kill, complaint: () => complaint };
}

/** Returns how many times SQLite's log has restarted, which is the third number in the log. @param {string} log */
function readRestarts(log) {
  return existsSync(log) && statSync(log).size >= 16 ? readFileSync(log).readUInt32BE(12) : 0;
}

/** @param {() => boolean} isTrue @param {string} what */
async function until(isTrue, what) {
  for (let tries = 0; !isTrue(); tries++) {
    if (tries > 3_000) throw new Error(`After 30 s, it still isn't true that ${what}.`);
    await pause(10);
  }
}

/** @param {string[]} command */
function run(...[program = "", ...args]) {
  execFileSync(program, args, { stdio: ["ignore", "pipe", "inherit"] });
}
