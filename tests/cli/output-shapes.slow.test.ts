// Tests that the commands' output with --json has the shapes that docs/command-output.md describes.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import ts from "typescript";
import { expect, it, onTestFinished } from "vitest";
import { openStorage } from "waymark/adapters";
import { WaymarkSaver } from "waymark/langgraph";
import { CheckpointRepository } from "waymark/oneshot";
import { newPlace, waymark } from "./waymark.js";

const root = join(import.meta.dirname, "..", "..");
const page = readFileSync(join(root, "docs", "command-output.md"), "utf8");
const shapes = /```ts\n(.*?)```/s.exec(page)?.[1] ?? "";
const table = /```text\n(.*?)```/s.exec(page)?.[1] ?? "";
const rows = [...table.matchAll(/^(.*?) {2,}(.*)$/gm)].map(([, line, type]) => ({
  line: `${line} --json`,
  type: type!,
  hasNdjson: type!.endsWith("[]"),
}));
/** A program of the sources can't be loaded by a configuration. */
const SDK = pathToFileURL(join(root, "dist", "src", "index.js")).href;

it("prints what docs/command-output.md describes", async () => {
  const { place, manager } = await placeWithEverything();
  const lease = await manager.lease("starting");
  onTestFinished(() => lease.release());
  const printed: string[] = [];
  for (const { line, type, hasNdjson } of rows) {
    const { stdout, stderr } = await waymark(place, wordsOf(line));
    expect(stdout, `${line}: ${stderr}`).not.toBe("");
    printed.push(`/* ${line} */ const _${printed.length}: ${type} = ${stdout};`);
    if (!hasNdjson) continue;
    const lines = await waymark(place, wordsOf(line.replace("--json", "--ndjson")));
    expect(lines.stdout.trim().split("\n").length, line).toBe(JSON.parse(stdout).length);
  }
  expect(problemsIn(`${shapes}\n${printed.join("\n")}\nexport {};`)).toEqual([]);
});

it("names every command that has --json", () => {
  const folder = join(root, "cli", "src", "commands");
  const commands = readdirSync(folder).filter((file) =>
    /"--json|jsonOption\(/.test(readFileSync(join(folder, file), "utf8")),
  );
  const described = rows.map(({ line }) => `${line.split(" ")[0]}.ts`);
  expect(commands.filter((file) => !described.includes(file))).toEqual([]);
});

/** Tasks of every kind, a thread of LangGraph, damage, a PRP, a feature, an export, and a key. */
async function placeWithEverything() {
  const found = await newPlace("files:store");
  const { cwd, manager } = found;
  await manager.save(
    "build-42",
    { phase: 1, done: [] },
    { stage: "compile", label: "Compiled", metadata: { commit: "a1" } },
  );
  await manager.save("build-42", { phase: 2, done: ["compile"] }, { stage: "test" });
  await manager.fail("build-42", new TypeError("the tests fail"));
  const failing = manager.run("agent-7", async (run) => {
    await run.step("model", () => new Date(0));
    await run.step("tool", () => Promise.reject(new Error("the tool is down")));
  });
  await expect(failing).rejects.toThrow("the tool is down");
  await manager.enqueue("agent-8", { n: 1 }, { dueAt: new Date("2999-12-01T09:00:00Z") });
  const stop = new AbortController();
  manager.on("waitStarted", () => stop.abort());
  await expect(manager.run("agent-9", (run) => run.waitFor("approve"), { signal: stop.signal })).rejects.toThrow();
  await manager.send("agent-9", "approve", true, { id: "s1" });
  await manager.save("damaged", 1);
  const [file = ""] = readdirSync(join(cwd, "store", "damaged")).filter((name) => name.endsWith(".json"));
  writeFileSync(join(cwd, "store", "damaged", file), "{");
  const saver = new WaymarkSaver({ storage: openStorage("files:store", { relativeTo: cwd }) });
  const thread = { configurable: { thread_id: "letter-1", checkpoint_ns: "" } };
  await saver.put(thread, emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
  await saver.close();

  writeFileSync(
    join(cwd, "waymark.config.mjs"),
    `import { encrypt } from "${SDK}";
    export default { transforms: [encrypt({ keys: { a: new Uint8Array(32) }, current: "a" })] };`,
  );
  writeFileSync(join(cwd, "tasks.md"), "- [ ] T001 Build it\n");
  writeFileSync(
    join(cwd, "PRP.md"),
    "# Greet\n\n## Validation Loop\n\n### Level 1: It greets\n\n```sh\necho Hello\n```\n",
  );
  await waymark(found.place, [
    "prp",
    "run",
    "PRP.md",
    "--coder",
    `cat >/dev/null; echo '{"result":"success","message":"done"}'`,
  ]);
  const features = new CheckpointRepository(cwd);
  const startTime = new Date(0);
  await features.save({
    featureId: "F01",
    agentId: "a",
    status: "failed",
    completedWs: [],
    currentWs: "1",
    startTime,
    lastUpdate: startTime,
  });
  await waymark(found.place, ["export", "build-42", "--out", "export.ndjson"]);
  return found;
}

/** @param line - A command of the page, whose words in capitals stand for things of the place. */
function wordsOf(line: string): string[] {
  const names = new Map([
    [
      "TASK",
      /^retry|--timeline|@3|--step/.test(line)
        ? "agent-7"
        : /^(send|cancel)/.test(line)
          ? "agent-8"
          : /^wait/.test(line)
            ? "agent-7"
            : "build-42",
    ],
    ["NEW-TASK", "build-43"],
    ["CMD", "false"],
    ["URL", "sqlite:copy.db"],
    ["FILE", "export.ndjson"],
  ]);
  return line.split(" ").map((word) => names.get(word) ?? word);
}

/** Returns the compiler's messages about a file without imports. */
function problemsIn(text: string): string[] {
  const options = {
    strict: true,
    noEmit: true,
    target: ts.ScriptTarget.ES2022,
    types: [],
    exactOptionalPropertyTypes: true,
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (name) => name === "shapes.ts" || fileExists(name);
  host.getSourceFile = (name, ...rest) =>
    name === "shapes.ts" ? ts.createSourceFile(name, text, ts.ScriptTarget.ES2022) : getSourceFile(name, ...rest);
  const lines = text.split("\n");
  return ts
    .getPreEmitDiagnostics(ts.createProgram(["shapes.ts"], options, host))
    .map(({ file, start = 0, messageText }) => {
      const line = file?.getLineAndCharacterOfPosition(start).line ?? 0;
      const command = lines.slice(0, line + 1).findLast((one) => one.startsWith("/* "));
      return `${command?.slice(0, 80)}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
    });
}
