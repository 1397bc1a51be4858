// Follows the guides step by step, and checks that programs print the output that the guides show.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import ts from "typescript";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";

const root = join(import.meta.dirname, "..", "..");
const start = readFileSync(join(root, "site", "index.md"), "utf8");
const guide = readFileSync(join(root, "docs", "getting-started.md"), "utf8");
const following = readFileSync(join(root, "docs", "following.md"), "utf8");
const testing = readFileSync(join(root, "docs", "testing.md"), "utf8");
const comingFrom = readFileSync(join(root, "docs", "coming-from.md"), "utf8");

/** A folder inside the project, where programs find the packages like a user's program. */
let folder: string;

beforeEach(() => {
  mkdirSync(join(root, "coverage"), { recursive: true });
  folder = mkdtempSync(join(root, "coverage", "guide-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("docs/getting-started.md", () => {
  beforeEach(() => {
    for (const [, code, name] of guide.matchAll(/```js\n(\/\/ (\S+)\n.*?)```/gs))
      writeFileSync(join(folder, name!), code!);
  });

  it("prints what it says when it is killed in page c and started again", async () => {
    const [killed, , resumed] = [...guide.matchAll(/```console\n\$ [^\n]*\n(.*?)```/gs)].map(([, text]) => text!);

    expect(`${(await killedAfter("fetching c")).join("\n")}\n^C\n`).toBe(killed);
    expect(waymark("resume")).toMatch(/^report-42 +fetch c · started .* interrupted +died on /m);

    expect(run("report.mjs")).toBe(resumed);
    expect(run("report.mjs")).toBe("6000 bytes\n");
    expect(waymark("list", "report-42", "--timeline").trim().split("\n")).toHaveLength(1 + 5);
  });

  /** The lines that the program printed before it was killed. */
  async function killedAfter(line: string): Promise<string[]> {
    const child = spawn(process.execPath, ["report.mjs"], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
    const closed = once(child, "close");
    const lines: string[] = [];
    for await (const printed of createInterface({ input: child.stdout })) {
      lines.push(printed);
      if (printed === line) child.kill("SIGKILL");
    }
    await closed;
    return lines;
  }

  function waymark(...args: string[]): string {
    return execFileSync(process.execPath, [join(root, "cli/bin/waymark.js"), ...args], {
      cwd: folder,
      encoding: "utf8",
    });
  }
});

describe("the site's start page", () => {
  it("shows a program of at most 12 lines, which is killed and resumes as shown", () => {
    const program = /```ts\n(.*?)```/s.exec(start)?.[1] ?? "";
    const [, killed, resumed] = /\$ node report\.mjs\n(.*?)Killed\n\n\$ node report\.mjs\n(.*?)```/s.exec(start) ?? [];
    expect(program.trim().split("\n").length).toBeLessThanOrEqual(12);
    const fetchPage = `
      function fetchPage(page) {
        if (page === process.argv[2]) process.kill(process.pid, "SIGKILL");
        console.log("fetch " + page + ": 1200 bytes");
        return 1200;
      }`;
    writeFileSync(join(folder, "report.mjs"), program + fetchPage);

    expect(() => run("report.mjs", "c")).toThrow(expect.objectContaining({ signal: "SIGKILL", stdout: killed }));
    expect(run("report.mjs")).toBe(resumed);
  });
});

describe("docs/following.md", () => {
  it("streams a run to readers, each record once, through a server that is killed and started again", async () => {
    const [, code = ""] = /```js\n(.*?)```/s.exec(following) ?? [];
    writeFileSync(join(folder, "stories.mjs"), code);
    const first = await startServer();
    await fetch(`${first.url}?subject=a+river`, { method: "POST" });
    const seen: SentEvent[] = [];
    for await (const event of eventsOf(first.url)) {
      seen.push(event);
      if (event.kind === "chunk" && event.record.name === "end") break;
    }
    await first.kill();
    const second = await startServer();
    for await (const event of eventsOf(second.url, seen.at(-1)?.id)) seen.push(event);
    await second.kill();

    expect(seen.at(-1)?.kind).toBe("end");
    const ids = seen.slice(0, -1).map(({ id }) => Number(id));
    expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
    const steps = seen.filter(({ kind }) => kind === "step").map(({ record }) => record);
    expect(steps.map(({ name }) => name)).toEqual(["beginning", "end"]);
    const lastAttempt = Math.max(...seen.map(({ record }) => record.value?.attempt ?? 0));
    expect(lastAttempt).toBeGreaterThan(1);
    const tokens = seen.filter(({ record }) => record.name === "end" && record.value?.attempt === lastAttempt);
    expect(tokens.map(({ record }) => record.value?.chunk).join("")).toBe(steps[1]?.value?.result);
  });

  interface SentEvent {
    readonly id?: string;
    readonly kind?: string;
    readonly record: {
      readonly name?: string;
      readonly value?: { readonly attempt?: number; readonly chunk?: string; readonly result?: string };
    };
  }

  async function startServer() {
    const env = { ...process.env, PORT: "0" };
    const child = spawn(process.execPath, ["stories.mjs"], { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    const [port] = await once(createInterface({ input: child.stdout }), "line");
    const closed = once(child, "close");
    const kill = () => child.kill("SIGKILL") && closed;
    return { url: `http://localhost:${port}/s-1`, kill };
  }

  async function* eventsOf(url: string, lastId?: string): AsyncGenerator<SentEvent> {
    const { body } = await fetch(url, lastId === undefined ? {} : { headers: { "last-event-id": lastId } });
    let text = "";
    for await (const part of body!.pipeThrough(new TextDecoderStream())) {
      const events = (text + part).split("\n\n");
      text = events.pop() ?? "";
      for (const event of events) {
        const fields = Object.fromEntries(event.split("\n").map((line) => line.split(/:\s?(.*)/s)));
        yield { id: fields["id"], kind: fields["event"], record: JSON.parse(fields["data"] || "{}") };
      }
    }
  }
});

describe("docs/testing.md", () => {
  it("shows a program on simulated time, which prints what it says", () => {
    const [, program = "", printed] = /```ts\n(.*?)```\n\n```\n(.*?)```/s.exec(testing) ?? [];
    writeFileSync(join(folder, "invoices.mjs"), withoutTypes(program));
    expect(run("invoices.mjs")).toBe(printed);
  });
});

describe("docs/coming-from.md, for a JSON file of your own", () => {
  const storage = () => openStorage(`files:${join(folder, ".waymark", "state")}`);

  /** The programs on Waymark: one saves, the other imports. */
  beforeEach(() => {
    const [, text = ""] = /^## A JSON file of your own\n(.*)/ms.exec(comingFrom) ?? [];
    const own = [...text.matchAll(/```ts\n(.*?)```/gs)].map(([, code = ""]) => code);
    const [program = "", importing = ""] = own.filter((code) => code.includes("waymark"));
    writeFileSync(join(folder, "program.mjs"), withoutTypes(program));
    writeFileSync(join(folder, "import.mjs"), withoutTypes(importing));
  });

  it("shows a program that continues from what the import has stored", async () => {
    writeFileSync(join(folder, "state.json"), JSON.stringify({ done: ["compile"] }));
    // Importing twice stores nothing twice.
    for (const script of ["import.mjs", "import.mjs", "program.mjs"]) run(script);

    const manager = new CheckpointManager({ storage: storage() });
    const saved = await manager.list("build");
    expect([saved.length, saved.at(-1)?.stage]).toEqual([2, "imported"]);
    expect((await manager.latest("build"))?.state).toEqual({ done: ["compile", "test"] });
    await manager.close();
  });

  it("shows an import that names a file cut short, and stores nothing of it", async () => {
    writeFileSync(join(folder, "state.json"), '{"done":["comp');

    expect(() => run("import.mjs")).toThrow(/state\.json is no JSON, so nothing was imported/);
    const manager = new CheckpointManager({ storage: storage() });
    expect(await manager.tasks()).toEqual([]);
    await manager.close();
  });
});

function run(...args: string[]): string {
  return execFileSync(process.execPath, args, { cwd: folder, encoding: "utf8" });
}

function withoutTypes(code: string): string {
  const compilerOptions = { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext };
  return ts.transpileModule(code, { compilerOptions }).outputText;
}
