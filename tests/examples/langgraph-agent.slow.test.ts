// Runs the example as a person would: unchanged, on a user's storage, and with Ctrl-C. The tests check the stored
// checkpoints and remaining processes as well as the output.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { BaseMessage } from "@langchain/core/messages";
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { execa } from "execa";
import { beforeAll, expect, it } from "vitest";
import { openStorage } from "waymark/adapters";
import { WaymarkSaver } from "waymark/langgraph";
import { newSchema } from "../support/postgres.js";
import { processesIn } from "../support/processes-in.js";
import { runExample } from "../support/run-example.js";
import { tempFolder } from "../support/temp-folder.js";

const root = join(import.meta.dirname, "..", "..");
const example = join(root, "examples", "langgraph-agent");
/** A test takes some seconds, and longer on a machine that is busy with other tests. */
const timeout = 300_000;

beforeAll(async () => {
  // The example is always rebuilt, because an existing build may be from older sources.
  await execa("npm", ["run", "build", "-w", "waymark-example-langgraph-agent"], { cwd: root });
}, timeout);

it("prints what its README shows, in at most 80 columns, each time that it is started", { timeout }, async () => {
  const [, shown = ""] = /```text\n(.*?)```/s.exec(readFileSync(join(example, "README.md"), "utf8")) ?? [];
  for (const _start of [1, 2]) {
    const { exitCode, output } = await demonstrate({ folder: root });
    expect(exitCode, output).toBe(0);
    expect(output.trim()).toBe(shown.trim());
    expect(output.split("\n").filter((line) => line.length > 80)).toEqual([]);
  }
});

it.each([
  ["files", async () => `files:${await tempFolder()}`],
  ["PostgreSQL", async () => urlOf(await newSchema())],
] as const)("stores both branches of the thread in %s", { timeout }, async (_name, newUrl) => {
  const url = await newUrl();
  const { exitCode, output } = await demonstrate({ folder: await tempFolder(), url });
  expect(exitCode, output).toBe(0);
  expect(output).not.toContain(url);

  await using saver = new WaymarkSaver({ storage: openStorage(url) });
  const tuples: CheckpointTuple[] = [];
  for await (const tuple of saver.list({ configurable: {} })) tuples.unshift(tuple);
  const ids = tuples.map(({ checkpoint }) => checkpoint.id);
  const parents = tuples.map(({ parentConfig }) => ids.indexOf(parentConfig?.configurable?.["checkpoint_id"]));
  expect(parents).toEqual([-1, 0, 1, 2, 3, 3, 5, 6]);
  // The first finding is from the killed process, the second from the next process.
  const found = tuples[2]?.pendingWrites?.filter(([, channel]) => channel === "offers");
  expect(found?.map(([, , value]) => value)).toEqual([
    { flight: "TP 571 for 180 €" },
    { hotel: "Casa do Rio for 840 €" },
  ]);
  const lastWords = tuples.map(
    ({ checkpoint }) => (checkpoint.channel_values["messages"] as BaseMessage[])?.at(-1)?.text,
  );
  expect(lastWords[4]).toBe("Nothing is booked.");
  expect(lastWords[7]).toBe("Booked: TP 571 for 180 € and Pensão Sol for 420 €.");
});

it("leaves no process after Ctrl-C, and prints how to continue", { timeout }, async () => {
  const folder = await tempFolder();
  const { exitCode, output } = await demonstrate({ folder, interruptedAt: "search hotel begins" });
  expect(exitCode, output).toBe(130);
  expect(processesIn(folder)).toEqual([]);
  const [, command = ""] = /To continue:\n(.*)/.exec(output) ?? [];
  const { stdout } = await execa("sh", ["-c", command], { cwd: folder });
  expect(stdout.split("\n").at(-1)).toBe("asks: Book TP 571 for 180 € and Casa do Rio for 840 €?");
});

interface Start {
  /** The user's current folder. */
  readonly folder: string;
  readonly url?: string;
  /** A text. The first line that contains it triggers SIGINT. */
  readonly interruptedAt?: string;
}

/** Runs the demonstration from its start to its end. */
async function demonstrate({ folder, url, interruptedAt }: Start) {
  const program = [join(example, "dist", "main.js"), ...(url === undefined ? [] : [url])];
  const options = {
    cwd: example,
    env: { ...process.env, INIT_CWD: folder, WAYMARK_STORAGE: undefined },
  };
  return runExample(program, options, interruptedAt);
}

function urlOf(place: { readonly url: string; readonly schema: string }): string {
  const url = new URL(place.url);
  url.searchParams.set("schema", place.schema);
  return url.href;
}
