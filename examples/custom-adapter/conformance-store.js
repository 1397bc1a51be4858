import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createStorage } from "unstorage";
import fsDriver from "unstorage/drivers/fs";
// Imports the source, not the build. Vitest compiles it, and the suite starts no other processes for an adapter that is
// neither `durable` nor `multiProcess`.
import { UnstorageAdapter } from "./unstorage-adapter.ts";

/** Opens the adapter for the conformance suite; see tests/conformance/unstorage.slow.test.ts at the root. */
export function open(location) {
  return new UnstorageAdapter({ storage: createStorage({ driver: fsDriver({ base: location }) }) });
}

/**
 * Damages a checkpoint's file. The driver turns keys into paths: waymark/tasks/<task>,
 * waymark/payloads/<task>/<sequence>.
 */
export function damage(location, taskId, id, part) {
  for (const task of readdirSync(join(location, "waymark", "tasks"))) {
    const path = join(location, "waymark", "tasks", task);
    const text = readFileSync(path, "utf8");
    const index = JSON.parse(text.slice(text.indexOf("{")));
    const header = index.headers.find((one) => one.taskId === taskId && one.id === id);
    if (header === undefined) continue;
    const otherSeal = header.seal.replace(/./, (digit) => (digit === "0" ? "1" : "0"));
    const payload = join(location, "waymark", "payloads", task, `${header.sequence}`);
    if (part === "summary") writeFileSync(path, text.replace(header.seal, otherSeal));
    else if (part === "payload") truncateSync(payload, 15);
    else rmSync(payload);
    return;
  }
  throw new Error(`No index in ${location} holds checkpoint ${id} of ${taskId}.`);
}
