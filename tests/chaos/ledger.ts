// The ledger of a chaos run. Each process has a file with a line per fact. A line is a single write, so a kill leaves
// no half lines.
import { openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";

/** A fact that a process notes about a task. */
export type Observation = { readonly task: string } & (
  | { readonly is: "claimed"; readonly token: number }
  | { readonly is: "released"; readonly token: number }
  /** A checkpoint with this id is about to be saved under a lease. */
  | { readonly is: "saving"; readonly id: string; readonly token: number }
  | { readonly is: "saved"; readonly token: number; readonly sequence: number; readonly sentAtMs: number }
  | { readonly is: "started"; readonly attempt: number; readonly nowMs: number }
  /** The worker's function was called. */
  | { readonly is: "called" }
  /** A step's function was called, and returned this value. */
  | { readonly is: "ran"; readonly step: number; readonly key: string; readonly value: string }
  /** A sleep or a wait with a time limit was called. */
  | { readonly is: "asked"; readonly step: number; readonly untilMs: number }
  /** In a race, a tick came before the event. */
  | { readonly is: "ticked" }
  /** The run's function got this value from a step. */
  | { readonly is: "got"; readonly step: number; readonly value: string; readonly nowMs: number }
  /** The task is about to kill its worker. */
  | { readonly is: "died" }
  | { readonly is: "error"; readonly code: string; readonly message: string }
  /** The task is about to be enqueued with a later start. */
  | { readonly is: "delayed"; readonly dueAtMs: number }
  | { readonly is: "enqueued" }
  | { readonly is: "eventSent"; readonly id: string; readonly copy: number }
  /** A follower got the record with this sequence, or the task's end. */
  | { readonly is: "followed"; readonly sequence: number; readonly kind: string }
  | { readonly is: "followedAll" }
  /** A wait for the task's result has ended, with the result or with `failed`. */
  | { readonly is: "awaited"; readonly outcome: unknown }
);

/** A fact with its time. `atMs` is from the clock that all processes of the machine share. */
export type Fact = Observation & { readonly atMs: number };

export function openLedger(folder: string, name: string): (fact: Observation) => void {
  const file = openSync(join(folder, `${name}.jsonl`), "a");
  return (fact) => {
    writeSync(file, `${JSON.stringify({ atMs: nowMs(), ...fact })}\n`);
  };
}

/**
 * @param of - The beginning of the names of the processes to read. A process that is still writing may have left half a
 * line, so its ledger can't be read.
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
