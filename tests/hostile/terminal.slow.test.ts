// Ids and texts that a terminal, a shell or an option parser would misinterpret, through every command.
import { describe, expect, it } from "vitest";
import { newPlace } from "../cli/waymark.js";
import { treeOf } from "../support/tree.js";

// biome-ignore lint/suspicious/noControlCharactersInRegex: these characters must not appear.
const RAW = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
const IDS = [
  ...["-rf", "--help", "--", "../../up", "/etc/passwd", "\u001b[2J", "\u001b]0;owned\u0007", "a\nb", "\u202eabc"],
  ...["'; DROP TABLE checkpoints; --", "$(touch owned)", "`touch owned`", "__proto__", "\u009b31m", "日本語"],
];
/** The storages to try. Each command is a process, so not all storages that show ids are tried. */
const STORES: [string, readonly string[], readonly string[][]][] = [
  ["sqlite:checkpoints.db", IDS, [["list"], ["show"], ["diff"], ["resume"], ["stats"]]],
  ["files:store", IDS.slice(0, 6), [["list", "--json"], ["show"]]],
  ["tasks:store", IDS.slice(4, 8), [["list"], ["show", "--json"]]],
];

describe("waymark", () => {
  it.each(STORES)(
    "takes hostile ids as ids, shows none of them raw, and touches nothing, on %s",
    async (url, ids, commands) => {
      const { run, manager, cwd } = await newPlace(url, {
        createId: ({ taskId, nowMs }) => `${taskId}-${nowMs}-${Math.random()}`,
      });
      for (const id of ids) {
        const about = { stage: id, label: id, metadata: Object.fromEntries([[id, id]]) };
        await manager.save(id, Object.fromEntries([[id, id]]), about);
        await manager.save(id, Object.fromEntries([[id, `${id}!`]]), { ...about, error: new Error(id) });
      }
      await manager.close();
      const before = treeOf(cwd);
      for (const id of ids) {
        const runs = commands.map(async (args) => ({ args, ...(await run(...args, "--", id)) }));
        for (const { args, stdout, stderr, code } of await Promise.all(runs)) {
          const what = JSON.stringify({ args, id, code, stderr });
          expect(stdout, what).not.toMatch(RAW);
          expect(stderr, what).not.toMatch(RAW);
          if (args[0] === "list" || args[0] === "show") expect(code, what).toBe(0);
        }
      }
      const after = treeOf(cwd);
      // Readers of a database create its -wal and -shm, and remove them.
      if (!url.startsWith("sqlite")) expect(after).toEqual(before);
      expect(Object.keys(after).filter((path) => path.endsWith("owned"))).toEqual([]);
    },
  );

  it("shows none of its arguments raw", async () => {
    const { run, manager } = await newPlace();
    await manager.save("t", { a: 1 });
    await manager.save("t", { a: 2 });
    await manager.close();
    const bad = "\u001b[2J\u202e\u0007";
    const told = [
      [bad],
      ["show", "--", bad],
      ["list", "--", bad],
      ["tasks", "--prefix", bad],
      ["tasks", "--stage", bad],
      ["show", "t", `--${bad}`],
      ["diff", "t", bad, bad],
      ["bisect", "t", "--good", bad, "--bad", bad],
      ["tasks", "--storage", `sqlite:${bad}.db`],
      ["tasks", "--storage", `${bad}:x`],
      ["import", `${bad}.ndjson`],
      ["prune", "t", "--plan", `${bad}.json`],
      ["oneshot", bad],
      ["prp", "run", bad],
      ["export", "--out", `${bad}/none`],
    ];
    for (const args of told) {
      const { stdout, stderr } = await run(...args);
      expect(stdout + stderr, JSON.stringify(args)).not.toMatch(RAW);
    }
  });
});
