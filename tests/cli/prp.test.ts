import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it } from "vitest";
import { tempFolder } from "../support/temp-folder.js";
import { start, waymark } from "./waymark.js";

/** Notes that it was asked, and makes what the first gate looks for. */
const AGENT = `#!/bin/sh
cat > prompt
echo coder >> log
touch made
echo '{"result":"success","message":"done"}'
`;

/** A folder with a PRP of two gates, the second of which waits for ever until there is a file \`go\`. */
async function project() {
  const cwd = await tempFolder();
  const gates = [
    "### Level 1: Made\n\n```sh\necho gate-1 >> log; test -e made\n```",
    "### Level 2: Slow\n\n```sh\necho gate-2 >> log; test -e go || { echo waiting; exec sleep 600; }\n```",
  ];
  writeFileSync(join(cwd, "PRP.md"), `# Make it\n\n**PRP ID**: P1.M1\n\n## Validation Loop\n\n${gates.join("\n\n")}\n`);
  writeFileSync(join(cwd, "agent"), AGENT, { mode: 0o755 });
  const run = ["prp", "run", "PRP.md", "--coder", "./agent", "--session", "session"];
  return {
    cwd,
    run: (...args: string[]) => waymark({ cwd }, [...run, ...args]),
    status: (...args: string[]) => waymark({ cwd }, ["prp", "status", "--session", "session", ...args]),
    log: () => readFileSync(join(cwd, "log"), "utf8").trim().split("\n"),
    write: (name: string) => writeFileSync(join(cwd, name), ""),
    /** Starts it, and ends it by a signal in the middle of gate 2. */
    async interrupted(signal: NodeJS.Signals): Promise<unknown[]> {
      const child = start({ cwd }, run, { stdio: ["ignore", "pipe", "ignore"] });
      const ended = once(child, "exit");
      if (child.stdout === null) throw new Error("It has a stdout.");
      for await (const line of createInterface({ input: child.stdout })) {
        if (line !== "waiting") continue;
        child.kill(signal);
        // Its orphan may hold the pipe open.
        break;
      }
      return ended;
    },
  };
}

describe("waymark prp", () => {
  it("runs a PRP with a coder command, and shows its status", async () => {
    const { run, status, log, write } = await project();
    write("go");
    const { code, stdout } = await run();
    expect([code, stdout.trim().split("\n").at(-1)]).toEqual([0, "Complete, after 0 fix attempts."]);
    expect(log()).toEqual(["coder", "gate-1", "gate-2"]);
    expect((await status()).stdout).toMatch(/^TASK +STATUS +WHERE +WHEN +WHY\nP1\.M1 +completed +Complete +/);
    const { tasks, damaged } = JSON.parse((await status("--json")).stdout);
    expect([tasks, damaged]).toMatchObject([[{ taskId: "P1.M1", stage: "complete", status: "completed" }], []]);
  });

  it("warns that the project's transforms don't apply to its checkpoints", async () => {
    const { cwd, run, write } = await project();
    write("go");
    const transform = `{ name: "mine", encode: (body) => body, decode: (body) => body }`;
    writeFileSync(join(cwd, "waymark.config.mjs"), `export default { transforms: [${transform}] };`);
    const { code, stderr } = await run();
    expect(code).toBe(0);
    expect(stderr).toContain("waymark prp run writes its checkpoints as plain text");
  });

  it("killed with SIGKILL in a gate: says that it died, and --resume doesn't ask the coder again", async () => {
    const { run, status, log, write, interrupted } = await project();
    expect(await interrupted("SIGKILL")).toEqual([null, "SIGKILL"]);
    expect((await status()).stdout).toMatch(/P1\.M1 +died +Gate 1 passed .*continue with --resume/);

    write("go");
    const refused = await run();
    expect(refused.code).toBe(6);
    expect(refused.stderr).toMatch(/^waymark: .*started already.*--resume goes on from it, --restart begins anew/m);
    expect((await run("--resume")).code).toBe(0);
    expect(log()).toEqual(["coder", "gate-1", "gate-2", "gate-2"]);
  });

  it("saves paused at Ctrl-C, and ends by the signal", async () => {
    const { run, status, log, write, interrupted } = await project();
    expect(await interrupted("SIGINT")).toEqual([null, "SIGINT"]);
    expect((await status()).stdout).toMatch(/P1\.M1 +paused +Paused: Gate 1 passed/);
    write("go");
    expect((await run("--restart")).code).toBe(0);
    expect(log()).toEqual(["coder", "gate-1", "gate-2", "coder", "gate-1", "gate-2"]);
  });

  it("sets checkpoints that can't be read aside at --restart, says so, and begins anew", async () => {
    const { cwd, run, log, interrupted, write } = await project();
    await interrupted("SIGINT");
    const folder = join(cwd, "session", "artifacts", "P1.M1");
    const damaged = readFileSync(join(folder, "checkpoints.json"), "utf8").slice(1);
    writeFileSync(join(folder, "checkpoints.json"), damaged);
    write("go");

    const refused = await run("--resume");
    expect(refused.code).toBe(5);
    expect(readdirSync(folder).filter((name) => name !== ".lock")).toEqual(["checkpoints.json"]);

    const { code, stderr } = await run("--restart");
    const [whole, aside = "", ...others] = readdirSync(folder)
      .filter((name) => name !== ".lock")
      .sort();
    expect([code, whole, others]).toEqual([0, "checkpoints.json", []]);
    expect(aside).toMatch(/^checkpoints\.json\.damaged-/);
    expect(readFileSync(join(folder, aside), "utf8")).toBe(damaged);
    expect(stderr).toMatch(new RegExp(`warning: .* Their file is set aside as ${join(folder, aside)}, .*\\n`));
    expect(log().slice(-3)).toEqual(["coder", "gate-1", "gate-2"]);
  });

  it("starts over in a file with damaged checkpoints, and keeps them there", async () => {
    const { cwd, run, interrupted, write } = await project();
    await interrupted("SIGINT");
    const path = join(cwd, "session", "artifacts", "P1.M1", "checkpoints.json");
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replaceAll('"stage"', '"stge"'));
    write("go");
    expect((await run("--resume")).code).toBe(5);
    expect((await run("--restart")).code).toBe(0);
    expect(readFileSync(path, "utf8")).toContain('"stge"');
  });

  it("says why it failed, and exits with 1", async () => {
    const { run, cwd } = await project();
    writeFileSync(join(cwd, "agent"), '#!/bin/sh\necho \'{"result":"error","message":"no idea"}\'\n');
    const { code, stdout } = await run();
    expect(code).toBe(1);
    expect(stdout).toContain("Failed: ");
    expect(stdout).toContain("Fix it, then continue with --resume.");
  });

  it.each([
    ["a PRP that isn't there", ["run", "none.md", "--coder", "true"], 3, /none\.md/],
    ["a PRP without gates", ["run", "agent", "--coder", "true"], 2, /no validation gate/],
    ["no coder", ["run", "PRP.md"], 2, /--coder/],
    ["nothing to resume", ["run", "PRP.md", "--coder", "true", "--resume"], 3, /nothing to resume/],
    [
      "--resume with --restart",
      ["run", "PRP.md", "--coder", "true", "--resume", "--restart"],
      2,
      /--resume.* cannot be used with .*--restart/,
    ],
    ["a timeout that is none", ["run", "PRP.md", "--coder", "true", "--gate-timeout", "soon"], 2, /duration/],
    ["an unknown command", ["stat"], 2, /status/],
  ])("refuses %s", async (_what, args, exitCode, message) => {
    const { cwd } = await project();
    const { code, stdout, stderr } = await waymark({ cwd }, ["prp", ...args]);
    expect([code, stdout]).toEqual([exitCode, ""]);
    expect(stderr).toMatch(message);
  });

  it("says that a PRP was complete before, when, and how to run it again", async () => {
    const { run, log, write } = await project();
    write("go");
    expect((await run()).stdout).toContain("Complete, after 0 fix attempts.");
    const before = log();
    const again = await run("--resume");
    expect([again.code, again.stdout]).toEqual([
      0,
      "Complete already (just now). Nothing was run; --restart runs it again.\n",
    ]);
    expect(log()).toEqual(before);
  });

  it("has no status if no PRP was run", async () => {
    const { status } = await project();
    expect(await status()).toEqual({ code: 3, stdout: "", stderr: "No PRP has been run in session.\n" });
  });
});
