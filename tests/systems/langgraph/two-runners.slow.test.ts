import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { bundled } from "../../support/bundled.mjs";
import { collect } from "../../support/postgres.js";
import { newPlace, type Place, saverOn, threadOf } from "./storages.js";

/** Bundled, because LangGraph takes long to load. */
const PROGRAM = fileURLToPath(await bundled("tests/fixtures/langgraph/turn.mjs"));

it.each(["json-file", "task-file", "sqlite", "postgres"] as const)(
  "on %s, of two processes that continue from one checkpoint, the second is refused",
  async (kind) => {
    const place = await newPlace(kind);
    const begun = await start(place, "nobody");
    expect(await begun.goOn()).toEqual({ log: logOf("nobody") });

    const [first, second] = await Promise.all([start(place, "first"), start(place, "second")]);
    expect(await first.goOn()).toEqual({ log: [...logOf("nobody"), ...logOf("first")] });
    const stored = await collect(saverOn(place).list(threadOf("t")));

    expect(await second.goOn()).toEqual({
      error: {
        name: "CheckpointConflictError",
        code: "CHECKPOINT_CONFLICT",
        message: expect.stringContaining("Another run, or an updateState, has continued this thread since checkpoint"),
      },
    });
    expect(await collect(saverOn(place).list(threadOf("t")))).toEqual(stored);
    // The next run continues from the first one's checkpoint.
    const next = await start(place, "next");
    expect(await next.goOn()).toEqual({ log: [...logOf("nobody"), ...logOf("first"), ...logOf("next")] });
  },
);

const logOf = (name: string) => [`input of ${name}`, `one by ${name}`, `two by ${name}`];

/** A process that has read the thread. */
async function start({ url }: Place, name: string) {
  const child = spawn(process.execPath, [PROGRAM, url, name], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  expect((await lines.next()).value).toBe("read");
  return {
    async goOn(): Promise<unknown> {
      const closed = once(child, "close");
      child.stdin.end();
      const { value } = await lines.next();
      await closed;
      return JSON.parse(value);
    },
  };
}
