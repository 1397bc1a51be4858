// @ts-check
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { CheckpointManager } from "waymark";
import { openBareStores } from "./bare-stores.mjs";
import { printHeading, printTimes } from "./report.mjs";

const RECORDS = 300;
const TASKS = 100;
const CHUNKS = 1000;
const FOLLOWERS = 1000;
const LIMITS = { median: 50, last: 100 };
const program = fileURLToPath(new URL("follow-process.mjs", import.meta.url));
const peers = new URL("follow-peers/run.mjs", import.meta.url).href;
const idleProgram = fileURLToPath(new URL("follow-idle.mjs", import.meta.url));

/**
 * Measures how soon another process sees a record, an answer and a cancellation, and how soon a worker in another
 * process begins a run. `bench/follow-process.mjs` is the other process; both read the machine's clock. Also measures
 * the cost of a process that only follows tasks.
 *
 * @param {string} folder
 */
export async function benchFollow(folder) {
  for await (const store of openBareStores(folder, "follow")) {
    if (store.kind === "normal") continue;
    printHeading(`Seen in another process: ${store.title}`);
    const manager = new CheckpointManager({ storage: store.open() });
    const child = spawn(process.execPath, [program, store.url, String(RECORDS), String(TASKS), String(CHUNKS)], {
      stdio: ["pipe", "inherit", "inherit"],
    });
    const exited = once(child, "exit");
    /** @type {number[]} */
    const seen = [];
    for await (const record of manager.follow("records", { kinds: ["step"] })) {
      if (record.kind === "step") seen.push(now() - /** @type {{ result: number }} */ (record.value).result);
    }
    printTimes("a step's record, in a follower", seen, LIMITS);
    /** @type {number[]} */
    const begun = [];
    for (let task = 0; task < TASKS; task++) {
      await manager.enqueue(`work/${task}`, { sentMs: now() });
      begun.push(/** @type {number} */ (await manager.result(`work/${task}`)));
      await pause(Math.random() * 60);
    }
    printTimes("enqueue, to a worker's first step", begun, LIMITS);
    for (let answer = 0; answer < TASKS; answer++) {
      await pause(100 + Math.random() * 60);
      await manager.send("waits", "answer", now());
    }
    printTimes("an answer, to the run that waits", /** @type {number[]} */ (await manager.result("waits")), LIMITS);
    for (let task = 0; task < TASKS; task++) {
      for await (const { kind } of manager.follow(`cancel/${task}`)) if (kind === "mark") break;
      await pause(Math.random() * 60);
      await manager.cancel(`cancel/${task}`, String(now()));
    }
    printTimes(
      "cancel, to the signal of a running step",
      /** @type {number[]} */ (await manager.result("cancels")),
      LIMITS,
    );
    /** @type {unknown[]} */
    const chunks = [];
    for await (const record of manager.follow("chunks", { kinds: ["chunk"] })) chunks.push(record);
    if (chunks.length !== CHUNKS) throw new Error(`${chunks.length} chunks arrived instead of ${CHUNKS}.`);
    const share = /** @type {number} */ (await manager.result("chunks"));
    console.log(`1,000 chunks a second from one step: ${(share * 100).toFixed(1)} % of a core (≤ 10 %)`);
    child.stdin?.end();
    await exited;
    await benchIdle(manager, store.url);
    await manager.close();
    if (store.kind !== "postgres") continue;
    // `benchFollowPeers` needs packages that are installed only now.
    const { benchFollowPeers } = await import(peers);
    await benchFollowPeers(store.url, { records: RECORDS, tasks: TASKS });
  }
}

/** @param {CheckpointManager} manager @param {string} url */
async function benchIdle(manager, url) {
  const tasks = Array.from({ length: FOLLOWERS }, (_, task) => `followed/${task}`);
  for (const taskId of tasks) await manager.save(taskId, { at: 0 });
  const child = spawn(process.execPath, [idleProgram, url, String(FOLLOWERS)], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const exited = once(child, "exit");
  const next = async () => Number((await once(child, "message"))[0]);
  await next();
  const print = (/** @type {string} */ what, /** @type {number} */ share) =>
    console.log(`1,000 followers of 1,000 tasks, ${what}: ${(share * 100).toFixed(2)} % of a core (≤ 1 %)`);
  print("while nothing is written", await next());
  const writing = setInterval(() => void manager.save("another", { at: now() }), 100);
  print("while another task is written 10 times a second", await next());
  clearInterval(writing);
  await exited;
}

function now() {
  return performance.timeOrigin + performance.now();
}
