// The example: kills the agent before its mail server answers, starts it again, forks it, and looks at the ledger.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Ledger } from "./ledger.js";

const folder = join(import.meta.dirname, "..", ".run");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);

console.log("\n1  The agent begins, and is killed (SIGKILL) before its mail server answers.");
const killed = await run(["ann"], { MAIL_MS: "60000" }, ["recorded reorder c2", "begins mail c3"]);
console.log("\n2  Another process continues.");
const resumed = await run(["ann"]);
console.log('\n3  A person forks the last turn, with the words "Tell the warehouse, too."');
const forked = await run(["ann", "fork", "ann-2", "Tell the warehouse, too."]);
console.log("\n4  A person rewinds the agent itself to that turn, with the same words.");
const rewound = await run(["ann", "rewind", "ann", "Tell the warehouse, too."]);

console.log("\nThe ledger");
const ledger = new Ledger(join(folder, "ledger.db"));
const deeds = ledger.deeds();
ledger.close();
for (const { what, asked } of deeds) {
  console.log(`   ${what.padEnd(50)}${asked === 1 ? "once" : `once, though requested ${asked} times`}`);
}

const begun = (lines: string[]) => lines.flatMap((line) => /^begins (.*)/.exec(line)?.[1] ?? []).join(", ");
const findings = {
  "Everything was done once: the ledger knew the key of the mail that was requested twice.":
    deeds.map(({ asked }) => asked).join() === "1,2,1,1" && new Set(deeds.map(({ what }) => what)).size === 3,
  "No recorded step ran again: only the killed mail step began twice.":
    begun([...killed, ...resumed]) === "model, find_order c1, model, reorder c2, mail c3, mail c3, model",
  "The fork and the rewound agent repeated nothing, and each has its own answer.": [forked, rewound].every(
    (lines) => begun(lines) === "model, mail c4, model" && lines.at(-1) !== resumed.at(-1),
  ),
};
for (const [says, isTrue] of Object.entries(findings)) console.log(`${isTrue ? "✓" : "✗ Not true:"} ${says}`);
process.exitCode = Object.values(findings).every(Boolean) ? 0 : 1;

/** Runs `node dist/agent.js` to its end, or kills it once it has printed all of `killedAfter`. Returns its lines. */
async function run(args: string[], env: NodeJS.ProcessEnv = {}, killedAfter: string[] = []): Promise<string[]> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "agent.js"), ...args], {
    env: { ...process.env, ...env, AGENT_FOLDER: folder },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const closed = once(child, "close");
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    if (killedAfter.length > 0 && killedAfter.every((due) => lines.includes(due))) child.kill("SIGKILL");
  }
  await closed;
  const steps = (verb: string) =>
    lines.flatMap((line) => (line.startsWith(`${verb} `) ? line.slice(verb.length + 1) : []));
  if (steps("reused").length > 0) console.log(`   from storage  ${steps("reused").join(", ")}`);
  console.log(`   ran           ${steps("begins").join(", ")}${child.signalCode === null ? "" : " ╳"}`);
  for (const answer of steps("answer")) console.log(`   answer        ${answer}`);
  if (child.exitCode !== 0 && child.signalCode !== "SIGKILL") throw new Error(`The agent failed: ${args.join(" ")}`);
  return lines;
}
