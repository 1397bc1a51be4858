import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { errorOfProgram } from "../../../support/error-of-program.js";
import { tempFolder } from "../../../support/temp-folder.js";
import { draft } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const stores = { "json-file": newJsonStore, "task-file": newTaskStore };
const CALLS = {
  get: 'await adapter.get("t", "a1")',
  list: 'for await (const found of adapter.list({ taskId: "t", order: "newest" }));',
  tasks: 'for await (const found of adapter.tasks({ order: "recent" }));',
  verify: "for await (const found of adapter.maintenance.verify({ quick: false }));",
  setStatus: 'await adapter.setStatus("t", "a1", { status: "paused" })',
  remove: 'await adapter.remove("t", "all")',
  "the look at a lease": 'await adapter.leases.current("t")',
};

/** Returns the errors of calls, each on a new adapter, in a process without write permission everywhere. */
function messagesOf(kind: keyof typeof stores, path: string, calls: readonly string[]): string[] {
  const name = kind === "json-file" ? "JsonFileAdapter" : "TaskFileAdapter";
  const trying = calls.map(
    (call) => `
      try {
        const adapter = new ${name}({ path: ${JSON.stringify(path)} });
        ${call};
        messages.push("no error");
      } catch (error) {
        messages.push(error.code + ": " + error.message);
      }`,
  );
  const error = errorOfProgram(`
    const messages = [];
    const { ${name} } = await import("waymark/adapters/${kind}");
    if (process.getuid?.() === 0) process.setuid(65534);
    ${trying.join("\n")}
    throw new Error(JSON.stringify(messages));
  `);
  return JSON.parse(error?.message ?? "") as string[];
}

describe.each(Object.keys(stores) as (keyof typeof stores)[])(
  "a %s adapter in a folder that can't be written",
  (kind) => {
    it("fails at its first call of any kind if the store doesn't exist", async () => {
      const folder = await tempFolder();
      chmodSync(folder, 0o555);
      const messages = messagesOf(kind, join(folder, "deep", "store"), Object.values(CALLS));
      expect(messages).toHaveLength(Object.keys(CALLS).length);
      for (const message of messages) expect(message).toMatch(new RegExp(`^STORAGE_FAILED: .*EACCES at ${folder}\\. `));
    });

    it("fails at its first call of any kind if its folder exists and is empty", async () => {
      const folder = await tempFolder();
      chmodSync(folder, 0o555);
      for (const message of messagesOf(kind, folder, Object.values(CALLS))) {
        expect(message).toMatch(new RegExp(`^STORAGE_FAILED: .*EACCES at ${folder}\\. `));
      }
    });

    it("reads an existing store", async () => {
      const { root, adapter } = await stores[kind]();
      mkdirSync(root);
      await adapter.append(draft("t", "a1"));
      const folder = join(root, "..");
      const open = ["", "t", "t/.lock", kind === "json-file" ? "t/000000000001-a1.json" : "t/checkpoints.json"];
      for (const name of open) chmodSync(join(root, name), 0o555);
      chmodSync(folder, 0o555);
      onTestFinished(() => {
        for (const name of open) chmodSync(join(root, name), 0o755);
        chmodSync(folder, 0o755);
      });
      const { get, list, tasks, verify } = CALLS;
      const found = `if ((await adapter.get("t", "a1"))?.id !== "a1") throw new Error("It is missing.")`;
      expect(messagesOf(kind, root, [get, list, tasks, verify, found])).toEqual(Array(5).fill("no error"));
    });
  },
);
