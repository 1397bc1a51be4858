// Executes a turn in memory with the answers that a run's function got, one at a time. The interpreter's end shows how
// the function must have ended.
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Body, Part, Program, Wait } from "./program.js";
import { isStop, type Seen } from "./seen.js";
import { isLine } from "./seen-lives.js";
import { type Calls, isPlanned, type ProgramState, Titles, type TurnEnd, walkTurn } from "./walk.js";

type Got = Extract<Seen, { readonly is: "got" }>;

/** Compares the end of each turn in each life with the interpreter's. @param programOf - Returns the code's program. */
export async function misinterpreted(
  seen: readonly Seen[],
  programOf: (code: number) => Program,
): Promise<readonly string[]> {
  const violations: string[] = [];
  const turns = new Map<string, { readonly state: unknown; readonly answers: Got[] }>();
  for (const line of seen) {
    if (!isLine(line)) continue;
    const key = `${line.task} ${line.life}`;
    if (line.is === "began") turns.set(key, { state: line.state, answers: [] });
    const turn = turns.get(key);
    if (line.is === "got") turn?.answers.push(line);
    // The end of a function whose run has stopped doesn't count.
    if (isStop(line)) turns.delete(key);
    if (line.is !== "next" && line.is !== "returned" && line.is !== "threw") continue;
    turns.delete(key);
    if (turn === undefined || !isProgramState(turn.state)) continue;
    const end = await interpret(programOf(line.code), turn.state, turn.answers);
    const expected = line.is === "threw" ? "threw" : { [line.is]: line.is === "next" ? line.state : line.result };
    if (JSON.stringify(end) !== JSON.stringify(expected))
      violations.push(
        `${key}, turn ${line.at}: the function ended with ${JSON.stringify(expected)}, and the interpreter with ${JSON.stringify(end)}`,
      );
  }
  return violations;
}

async function interpret(program: Program, state: ProgramState, answers: readonly Got[]) {
  const calls = new Answers();
  let end: object | string = "not at all";
  const walking = walkTurn(program, state, calls).then(
    (ended: TurnEnd) => {
      end = "next" in ended ? ended : { returned: ended.result };
    },
    (error: unknown) => {
      end = isPlanned(error) ? "threw" : String(error);
    },
  );
  for (const { title, value, isError } of answers) {
    await nextTurn();
    if (!calls.answer(title, value, isError)) return `"${title}" was answered, and not called`;
  }
  await nextTurn();
  void walking;
  return end;
}

/** The calls of a turn, which are answered from outside. */
class Answers implements Calls {
  readonly #titles = new Titles();
  readonly #open = new Map<string, (value: string, isError: boolean) => void>();

  answer(title: string, value: string, isError: boolean): boolean {
    const settle = this.#open.get(title);
    this.#open.delete(title);
    settle?.(value, isError);
    return settle !== undefined;
  }

  step(name: string, _body: Body): Promise<string> {
    return this.#call("step", name);
  }

  child(name: string, _parts: readonly Part[]): Promise<string> {
    return this.#call("step", name);
  }

  sleep(name: string, _ms: number): Promise<string> {
    return this.#call("step", name);
  }

  wait(name: string, _wait: Wait): Promise<string> {
    return this.#call("step", name);
  }

  save(): Promise<string> {
    return this.#call("save", "saved").then(() => "saved");
  }

  #call(kind: "step" | "save", name: string): Promise<string> {
    const title = this.#titles.next(kind, name);
    return new Promise((resolve, reject) => {
      this.#open.set(title, (value, isError) => (isError ? reject(new RangeError(value)) : resolve(value)));
    });
  }
}

function isProgramState(state: unknown): state is ProgramState {
  return typeof state === "object" && state !== null && "trace" in state;
}
