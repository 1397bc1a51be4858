// The ledger of a chaos run: a file per process with a line per fact. A line is one write, so it is whole after a kill.
import { openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";

/** What a process notes of a task. */
export type Observation = { readonly task: string } & (
  | { readonly is: "claimed"; readonly token: number }
  | { readonly is: "released"; readonly token: number }
  /** A checkpoint with this id is about to be saved under a lease. */
  | { readonly is: "saving"; readonly id: string; readonly token: number }
  | { readonly is: "saved"; readonly token: number; readonly sequence: number; readonly sentAtMs: number }
  | { readonly is: "started"; readonly attempt: number; readonly nowMs: number }
  /** The worker's function was called. */
  | { readonly is: "called" }
  /** A step's function was called, and made this value. */
  | { readonly is: "ran"; readonly step: number; readonly key: string; readonly value: string }
  /** A sleep, or a wait with a time limit, was asked for. */
  | { readonly is: "asked"; readonly step: number; readonly untilMs: number }
  /** In a race, a tick was before the event. */
  | { readonly is: "ticked" }
  /** The run's function got this value of a step. */
  | { readonly is: "got"; readonly step: number; readonly value: string; readonly nowMs: number }
  /** The worker is about to be killed by the task. */
  | { readonly is: "died" }
  | { readonly is: "error"; readonly code: string; readonly message: string }
  /** The task is about to be enqueued, to begin later. */
  | { readonly is: "delayed"; readonly dueAtMs: number }
  | { readonly is: "enqueued" }
  | { readonly is: "eventSent"; readonly id: string; readonly copy: number }
  /** A follower got the record with this sequence, or the task's end. */
  | { readonly is: "followed"; readonly sequence: number; readonly kind: string }
  | { readonly is: "followedAll" }
  /** A wait for the task's result has ended: with the result, or with `failed`. */
  | { readonly is: "awaited"; readonly outcome: unknown }
);

/** `atMs` is by the clock that all processes of the machine share. */
export type Fact = Observation & { readonly atMs: number };

export function openLedger(folder: string, name: string): (fact: Observation) => void {
  const file = openSync(join(folder, `${name}.jsonl`), "a");
  return (fact) => {
    writeSync(file, `${JSON.stringify({ atMs: nowMs(), ...fact })}\n`);
  };
}

/**
 * @param of - The beginning of the processes' names. The ledger of a process that is still writing may end with half a line.
 */
export function factsIn(folder: string, of = ""): Fact[] {
  return readdirSync(folder)
    .filter((name) => name.startsWith(of))
    .flatMap((name) => readFileSync(join(folder, name), "utf8").split("\n"))
    .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Fact]));
}

export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
