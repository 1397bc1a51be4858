// The example: runs the agent on one thread several times, kills it once, and checks the stored checkpoints.
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { constants } from "node:os";
import { join, relative } from "node:path";
import { openStorage } from "waymark/adapters";
import { WaymarkSaver } from "waymark/langgraph";
import { check } from "./check.js";
import { demonstrate } from "./demonstration.js";

const interruption = new AbortController();
let interruptedBy: "SIGINT" | "SIGTERM" | "SIGHUP" | undefined;
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(name, () => {
    // Under npm, Ctrl-C arrives twice: from the terminal and from npm. The second signal is ignored.
    interruptedBy ??= name;
    interruption.abort();
  });
}

// npm starts this program in the example's folder, but a path in the URL is relative to the user's folder.
process.chdir(process.env["INIT_CWD"] ?? ".");
const example = relative("", join(import.meta.dirname, ".."));
const given = process.argv[2] || process.env["WAYMARK_STORAGE"];
if (!given) rmSync(join(example, ".run"), { recursive: true, force: true });
const url = given || `sqlite:${join(example, ".run", "agent.db")}`;
process.env["WAYMARK_STORAGE"] = url;
const threadId = given ? `trip-${randomBytes(3).toString("hex")}` : "trip";

console.log(`
A LangGraph agent plans a trip. Each of its runs is a process of its own. They
share the thread "${threadId}", which a WaymarkSaver keeps in ${given ? "your storage" : "SQLite"}.

          ┌ search flight ┐
     plan ┤               ├ approve (asks a person) ─ book
          └ search hotel ─┘`);
await using saver = new WaymarkSaver({ storage: openStorage(url) });
// The URL may contain a password, so it isn't printed.
const shownUrl = given ? "…" : url;
try {
  const runs = await demonstrate(saver, threadId, interruption.signal);
  process.exitCode = (await check(saver, threadId, runs)) ? 0 : 1;
  console.log(`\n  To look at what is stored:\n     npx waymark tasks --storage ${shownUrl}`);
} catch (error) {
  if (interruptedBy === undefined) throw error;
  console.log(`\n  Stopped by ${interruptedBy}. What is stored stays. To continue:`);
  console.log(`     WAYMARK_STORAGE=${shownUrl} node ${join(example, "dist", "agent.js")} ${threadId}`);
  process.exitCode = 128 + constants.signals[interruptedBy];
}
