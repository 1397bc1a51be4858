// Runs under a pseudo-terminal of util-linux's `script`. Skipped without it, with the reason in the name.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import displayWidth from "string-width";
import { describe, expect, it } from "vitest";
import { cleanEnv, hasScript, newPlace, type Place, WAYMARK } from "./waymark.js";

type Answer = readonly [RegExp, string | (() => Promise<string>)];

interface TerminalOptions {
  readonly columns?: number;
  readonly answer?: Answer;
  /** A text that is typed after the first answer. */
  readonly next?: Answer;
  readonly env?: NodeJS.ProcessEnv;
  /** The shell line that runs the command. */
  readonly waymark?: string;
}

/** Runs the command on a terminal of that many columns. Each answer is typed once its question appears. */
async function onTerminal(place: Place, command: string, options: TerminalOptions = {}) {
  const { columns = 100, waymark = `"${process.execPath}" "${WAYMARK}"` } = options;
  const line = `stty cols ${columns} rows 30; ${waymark} ${command}`;
  const child = spawn("script", ["-qefc", line, "/dev/null"], {
    cwd: place.cwd,
    env: cleanEnv({ TERM: "xterm", ...place.env, ...options.env }),
    stdio: ["pipe", "pipe", "inherit"],
  });
  let screen = "";
  const answers = [options.answer, options.next];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    screen += text;
    if (!answers[0]?.[0].test(screen)) return;
    const answer = answers.shift()?.[1] ?? "";
    if (typeof answer === "string") child.stdin.write(answer);
    else void answer().then((typed) => child.stdin.write(typed));
  });
  const [code] = await once(child, "close");
  return { code, screen: screen.replaceAll("\r\n", "\n") };
}

async function filled() {
  const place = await newPlace();
  for (let n = 1; n <= 30; n++)
    await place.manager.save(
      "build-42",
      { n },
      { label: `a rather long label, number ${n}, \u001b]0;owned\u0007 in full` },
    );
  return place;
}

describe.skipIf(!hasScript)("on a terminal (skipped without `script` of util-linux)", () => {
  it("colours tables, cuts them to the terminal's width, and escapes control characters in labels", async () => {
    const { place, manager } = await filled();
    await manager.close();
    const { code, screen } = await onTerminal(place, "list build-42", { columns: 70 });
    expect(code).toBe(0);
    expect(screen).toContain("\u001b[36mrunning\u001b[39m");
    expect(screen).toContain("…");
    expect(screen).not.toContain("\u001b]");
    expect(screen).not.toContain("\u0007");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours take no column.
    for (const line of screen.replace(/\u001b\[\d*m/g, "").split("\n")) expect(line.length).toBeLessThanOrEqual(70);
  });

  it("cuts nothing on a narrow screen: each row is a block", async () => {
    const place = await newPlace();
    for (const taskId of ["build-42", "build-43"])
      await place.manager.save(taskId, 1, { label: "The unit tests pass" });
    const { screen } = await onTerminal(place.place, "tasks", { columns: 40, env: { NO_COLOR: "1" } });
    for (const taskId of ["build-42", "build-43"])
      expect(screen).toMatch(new RegExp(`^TASK +${taskId}\n(.*\n){2}NEWEST +The unit tests pass\n`, "m"));
    await place.manager.close();
  });

  it.each([80, 200])("fits every table into %i columns", async (columns) => {
    const { place, manager } = await filled();
    await manager.save("a".repeat(300), 1, { stage: "日本語".repeat(40), label: "👩‍👩‍👧 ".repeat(50) });
    await manager.close();
    for (const command of ["list build-42", "tasks", "resume", "stats", "prune --all --keep-last 3 --dry-run"]) {
      const { screen } = await onTerminal(place, command, { columns, env: { NO_COLOR: "1" } });
      // An id is never cut: a long id has a separate line.
      const isText = (line: string) => !/would go|^a+$/.test(line.trim());
      const tooWide = screen.split("\n").filter((line) => displayWidth(line) > columns && isText(line));
      expect({ command, tooWide }).toEqual({ command, tooWide: [] });
    }
  });

  it("shows the first and the last rows of a long plan, and all of them if asked", async () => {
    const { place, manager } = await filled();
    await manager.close();
    const dryRun = "prune build-42 --keep-last 1 --dry-run";
    const { screen } = await onTerminal(place, dryRun, { env: { NO_COLOR: "1" } });
    expect(screen).toMatch(
      /keep +build-42 +30 .*\n(?:remove .*\n){9}… 10 more rows; --all-rows shows them\n(?:remove .*\n){10}/,
    );
    expect((await onTerminal(place, `${dryRun} --all-rows`)).screen).not.toContain("more rows");
  });

  it("honours NO_COLOR", async () => {
    const { place, manager } = await filled();
    await manager.close();
    expect((await onTerminal(place, "list build-42", { env: { NO_COLOR: "1" } })).screen).not.toContain("\u001b[3");
  });

  it("shows a progress bar for long work, and clears it before the answer", async () => {
    const { place, manager } = await filled();
    await manager.close();
    const { code, screen } = await onTerminal(place, "copy --to files:to");
    expect(code).toBe(0);
    expect(screen).toMatch(/copying \[=*-+\] \d+% \| \d+ of 60/);
    expect(screen).toContain("30 of 30 identical");
  });

  it("shows a progress bar while it rekeys", async () => {
    const { cwd, place, manager } = await filled();
    await manager.close();
    const sdk = join(import.meta.dirname, "..", "..", "dist", "src", "index.js");
    const transform = 'encrypt({ keys: { k: Buffer.alloc(32, 1) }, current: "k" })';
    const config = `import { encrypt } from ${JSON.stringify(sdk)};\nexport default { transforms: [${transform}] };`;
    writeFileSync(join(cwd, "waymark.config.mjs"), config);
    const { code, screen } = await onTerminal(place, "rekey");
    expect(code).toBe(0);
    expect(screen).toMatch(/rekeying \[=*-+\] \d+% \| \d+ of 30/);
    expect(screen).toContain("Rekeyed 30 payloads; 0 had the current key already.");
  });

  it("shows a progress bar while it verifies", async () => {
    const { place, manager } = await filled();
    await manager.close();
    const { code, screen } = await onTerminal(place, "verify");
    expect(code).toBe(0);
    expect(screen).toMatch(/verifying \[=*-+\] \d+% \| \d+ of 30/);
  });

  it("asks before it removes, and removes at yes", async () => {
    const { place, manager } = await filled();
    const { code, screen } = await onTerminal(place, "prune build-42 --keep-last 1", { answer: [/\[y\/N\] /, "y\n"] });
    expect([code, screen]).toEqual([0, expect.stringContaining("Remove 29 checkpoints")]);
    expect(await manager.list("build-42")).toHaveLength(1);
    await manager.close();
  });

  it("removes the shown checkpoints, even if more were saved while it asked", async () => {
    const { place, manager } = await filled();
    const later = async () => {
      for (let n = 31; n <= 35; n++) await manager.save("build-42", { n });
      return "y\n";
    };
    const { code, screen } = await onTerminal(place, "prune --all --keep-last 3", { answer: [/\[y\/N\] /, later] });
    expect([code, screen]).toEqual([0, expect.stringContaining("Removed 27 checkpoints")]);
    expect((await manager.list("build-42")).map(({ sequence }) => sequence)).toEqual([35, 34, 33, 32, 31, 30, 29, 28]);
    await manager.close();
  });

  it.each([
    ["no", "n\n"],
    ["nothing", "\n"],
    ["the end of the input", "\u0004"],
  ])("changes nothing at %s", async (_what, typed) => {
    const { place, manager } = await filled();
    const { code, screen } = await onTerminal(place, "delete build-42", { answer: [/\[y\/N\] /, typed] });
    expect([code, screen]).toEqual([4, expect.stringContaining("Nothing was changed")]);
    expect(await manager.list("build-42")).toHaveLength(30);
    await manager.close();
  });

  it("ends at Ctrl-C while it asks, changing nothing", async () => {
    const { place, manager } = await filled();
    const { code } = await onTerminal(place, "delete build-42", { answer: [/\[y\/N\] /, "\u0003"] });
    expect(code).toBe(130);
    expect(await manager.list("build-42")).toHaveLength(30);
    await manager.close();
  });

  it("shows the fleet until Ctrl-C, and restores the screen and the cursor", async () => {
    const { place, manager } = await newPlace();
    await manager.enqueue("w/1");
    await manager.close();
    const { code, screen } = await onTerminal(place, "tasks --watch", { answer: [/w\/1 +\S*queued/, "\u0003"] });
    expect(code).toBe(130);
    expect(screen).toContain("1 due, the oldest");
    expect(screen.indexOf("\u001b[?1049h")).toBeLessThan(screen.indexOf("w/1"));
    expect(screen.trimEnd().replace(/\^C/g, "").endsWith("\u001b[?25h\u001b[?1049l")).toBe(true);
  });

  it("shows a feature's workstreams as lines if the screen has fewer rows", async () => {
    const place = await newPlace();
    const steps = Array.from({ length: 29 }, (_, n) => ({ id: `step-${n}`, command: `echo done-${n}` }));
    writeFileSync(join(place.cwd, "plan.json"), JSON.stringify({ workstreams: steps }));
    const { code, screen } = await onTerminal(place, "oneshot F01 --plan plan.json --jobs 4");
    expect(code).toBe(0);
    for (const { id } of steps) expect(screen).toMatch(new RegExp(`^${id} .*done`, "m"));
    expect(screen).not.toContain("\u001b[?25l");
    await place.manager.close();
  });

  it("shows a feature's workstreams as a list that changes in place, and leaves the cursor as it was", async () => {
    const { place, manager } = await newPlace();
    await manager.close();
    const workstreams = [
      { id: "a", command: "echo first; echo second" },
      { id: "b", command: "echo broken; exit 3" },
      { id: "c", command: "true", depends_on: ["b"] },
    ];
    writeFileSync(join(place.cwd, "plan.json"), JSON.stringify({ workstreams }));
    const { code, screen } = await onTerminal(place, "oneshot F01 --plan plan.json");
    expect(code).toBe(1);
    const final = screen.slice(screen.lastIndexOf("\u001b[G"));
    expect(final).toMatch(/✔.*a {2}echo first/);
    expect(final).toMatch(/✖.*b {2}echo broken.*exited with 3/);
    expect(final).toMatch(/↓.*c {2}true \(not started\)/);
    expect(final).toContain("b exited with 3; its last lines:\n  broken\n");
    expect(screen.lastIndexOf("\u001b[?25h")).toBeGreaterThan(screen.lastIndexOf("\u001b[?25l"));
  });

  it("pauses a feature at Ctrl-C, and leaves the cursor as it was", async () => {
    const { place, manager } = await newPlace();
    await manager.close();
    const workstreams = [{ id: "a", command: "echo waiting; exec sleep 600" }];
    writeFileSync(join(place.cwd, "plan.json"), JSON.stringify({ workstreams }));
    const answer = [/› waiting/, "\u0003"] as const;
    const { code, screen } = await onTerminal(place, "oneshot F01 --plan plan.json", { answer });
    expect(code).toBe(130);
    expect(screen).toContain("stopped, and will be run again");
    expect(screen).toContain("\nPaused. Continue with: waymark oneshot F01 --plan plan.json --resume\n");
    expect(screen.lastIndexOf("\u001b[?25h")).toBeGreaterThan(screen.lastIndexOf("\u001b[?25l"));
    const saved: unknown = JSON.parse(readFileSync(join(place.cwd, ".sdp", "checkpoints", "F01.json"), "utf8"));
    expect(saved).toMatchObject({ status: "paused", current_ws: "a" });
  });

  it("ends a feature at once at a second Ctrl-C, reports what that may cost, and leaves the cursor as it was", async () => {
    const { place, manager } = await newPlace();
    await manager.close();
    // The second signal comes so late that it doesn't count as npm's repetition of the first.
    const command = "trap 'sleep 1; echo stopping; sleep 600' TERM; echo waiting; sleep 600 & wait";
    writeFileSync(join(place.cwd, "plan.json"), JSON.stringify({ workstreams: [{ id: "a", command }] }));
    const { code, screen } = await onTerminal(place, "oneshot F01 --plan plan.json", {
      answer: [/› waiting/, "\u0003"],
      next: [/› stopping/, "\u0003"],
    });
    expect(code).toBe(130);
    expect(screen).toMatch(
      /\nEnded at once: commands that don't end.* Their work is not saved.* F01 --plan plan\.json --resume\n/,
    );
    expect(screen.lastIndexOf("\u001b[?25h")).toBeGreaterThan(screen.lastIndexOf("\u001b[?25l"));
  });

  it("reports below the list that a feature pauses, while its commands refuse to end", async () => {
    const { place, manager } = await newPlace();
    await manager.close();
    const command = "mkfifo go; trap 'cat go; exit' TERM; echo waiting; sleep 600 & wait";
    writeFileSync(join(place.cwd, "plan.json"), JSON.stringify({ workstreams: [{ id: "a", command }] }));
    const { code, screen } = await onTerminal(place, "oneshot F01 --plan plan.json", {
      answer: [/› waiting/, "\u0003"],
      next: [
        /a {2}mkfifo[^✔↓]*\n[^\n]*Pausing: waiting until the commands have ended\. Press Ctrl-C again to end at once\./,
        async () => {
          await writeFile(join(place.cwd, "go"), "");
          return "";
        },
      ],
    });
    expect(code).toBe(130);
    expect(existsSync(join(place.cwd, "go"))).toBe(true);
    const final = screen.slice(screen.lastIndexOf("\u001b[G"));
    expect(final).toMatch(/\(stopped, and will be run\s+again\)/);
    expect(final).not.toContain("Pausing");
  });

  it("pauses a feature at Ctrl-C under npx, which may repeat the signal", async () => {
    const { place, manager } = await newPlace();
    await manager.close();
    const workstreams = [{ id: "a", command: "echo waiting; exec sleep 600" }];
    writeFileSync(join(place.cwd, "plan.json"), JSON.stringify({ workstreams }));
    mkdirSync(join(place.cwd, "node_modules", ".bin"), { recursive: true });
    symlinkSync(WAYMARK, join(place.cwd, "node_modules", ".bin", "waymark"));
    const { code, screen } = await onTerminal(place, "oneshot F01 --plan plan.json", {
      waymark: "npx waymark",
      // `exec` makes the shell become the command, as many systems' shells do, so that npm's own child is the command.
      env: { npm_config_script_shell: "bash" },
      answer: [/› waiting/, "\u0003"],
    });
    expect(code).toBe(130);
    expect(screen).toContain("Paused. Continue with: waymark oneshot F01 --plan plan.json --resume\n");
  });

  it("reports at Ctrl-C that a PRP paused, and the command that continues it", async () => {
    const { place, manager } = await newPlace();
    await manager.close();
    const gate = "### Level 1: Slow\n\n```sh\nexec sleep 600\n```";
    writeFileSync(join(place.cwd, "PRP.md"), `# Make it\n\n## Validation Loop\n\n${gate}\n`);
    const coder = `--coder 'echo waiting; exec sleep 600'`;
    const { code, screen } = await onTerminal(place, `prp run PRP.md ${coder}`, { answer: [/waiting/, "\u0003"] });
    expect(code).toBe(130);
    expect(screen).toContain(`\nPaused. Continue with: waymark prp run PRP.md ${coder} --resume\n`);
  });
});
