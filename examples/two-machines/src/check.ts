import { isDeepStrictEqual } from "node:util";
import type { CheckpointManager } from "waymark";
import { z } from "zod";
import type { Demonstration } from "./demonstration.js";

const Results = z.array(z.string());

/** Prints the stored checkpoints. Returns whether they agree with the workers' output. */
export async function check(manager: CheckpointManager, taskId: string, run: Demonstration): Promise<boolean> {
  const { killed, stopped, last } = run;
  const workers = [killed, stopped, last];
  const acknowledged = workers.flatMap(({ machine, saved }) => saved.map((step) => `step ${step}, by ${machine}`));
  const begun = workers.flatMap((worker) => worker.begun);
  const twice = [...new Set(begun.filter((step, index) => begun.indexOf(step) < index))];

  console.log("\n  What is stored, by checkpoint");
  const stored: string[] = [];
  for await (const { sequence, state } of manager.history(taskId, { order: "oldest" })) {
    const result = Results.parse(state).at(-1) ?? "";
    stored.push(result);
    const cutOff = workers.filter(({ stepUnderWay }) => result.startsWith(`step ${stepUnderWay},`));
    const remark = cutOff.map((worker) => `${worker.machine} was ${worker === killed ? "killed" : "stopped"} in it`);
    console.log(`  ${String(sequence).padStart(4)}  ${result.padEnd(16)}${remark.join(", ")}`.trimEnd());
  }

  const newest = await manager.latest(taskId);
  const isRefused = (await stopped.ended).includes("LEASE_LOST");
  const findings = [
    {
      isTrue: newest?.status === "completed" && acknowledged.every((result) => stored.includes(result)),
      says: `The task is completed, and all ${acknowledged.length} saves that were acknowledged are stored.`,
    },
    {
      isTrue: twice.every((step) => step === killed.stepUnderWay || step === stopped.stepUnderWay),
      says: `Only steps ${twice.join(" and ")} were done twice: they ran at the kill and at the stop.`,
    },
    {
      isTrue: isRefused && isDeepStrictEqual(newest?.state, stored),
      says: "The stopped worker's save was refused, and nothing of it was stored.",
    },
  ];
  console.log();
  for (const { isTrue, says } of findings) console.log(`  ${isTrue ? "✓" : "✗ Not true:"} ${says}`);
  return findings.every(({ isTrue }) => isTrue);
}
