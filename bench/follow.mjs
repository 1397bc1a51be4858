// @ts-check
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { CheckpointManager } from "waymark";
import { openBareStores } from "./bare-stores.mjs";
import { printHeading, printRow } from "./report.mjs";

const RECORDS = 300;
const TASKS = 100;
const CHUNKS = 1000;
const program = fileURLToPath(new URL("follow-process.mjs", import.meta.url));

/**
 * How soon another process sees a record, and a worker in another process begins a run: `bench/follow-process.mjs` runs,
 * and works. Both processes read the machine's clock.
 *
 * @param {string} folder
 */
export async function benchFollow(folder) {
  for await (const store of openBareStores(folder, "follow")) {
    if (store.kind === "normal") continue;
    printHeading(`Seen in another process: ${store.title}`);
    const manager = new CheckpointManager({ storage: store.open() });
    const child = spawn(process.execPath, [program, store.url, String(RECORDS), String(CHUNKS)], {
      stdio: ["pipe", "inherit", "inherit"],
    });
    const exited = once(child, "exit");
    /** @type {number[]} */
    const seen = [];
    for await (const record of manager.follow("records", { kinds: ["step"] })) {
      if (record.kind === "step") seen.push(now() - /** @type {{ result: number }} */ (record.value).result);
    }
    printTimes("a step's record, in a follower", seen);
    /** @type {number[]} */
    const begun = [];
    for (let task = 0; task < TASKS; task++) {
      await manager.enqueue(`work/${task}`, { sentMs: now() });
      begun.push(/** @type {number} */ (await manager.result(`work/${task}`)));
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 60));
    }
    printTimes("enqueue, to a worker's first step", begun);
    /** @type {unknown[]} */
    const chunks = [];
    for await (const record of manager.follow("chunks", { kinds: ["chunk"] })) chunks.push(record);
    if (chunks.length !== CHUNKS) throw new Error(`${chunks.length} chunks came, and there are ${CHUNKS}.`);
    const share = /** @type {number} */ (await manager.result("chunks"));
    console.log(`1,000 chunks a second from one step: ${(share * 100).toFixed(1)} % of a core (≤ 10 %)`);
    child.stdin?.end();
    await exited;
    await manager.close();
  }
}

/** @param {string} what @param {number[]} times */
function printTimes(what, times) {
  times.sort((a, b) => a - b);
  const at = (/** @type {number} */ share) => times[Math.floor(times.length * share)] ?? 0;
  printRow({ what: `${what}: median`, measuredMs: at(0.5), limit: 50 });
  printRow({ what: `${what}: 99th percentile`, measuredMs: at(0.99), limit: 100 });
}

function now() {
  return performance.timeOrigin + performance.now();
}
