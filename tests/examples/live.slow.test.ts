// Runs the example in Chromium, reloads its page, and kills its server in the middle.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { execa } from "execa";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { CHROMIUM, launch } from "../cli/ui/page-browser.js";
import { tempFolder } from "../support/temp-folder.js";

const root = join(import.meta.dirname, "..", "..");
const example = join(root, "examples", "live");
const timeout = 300_000;

beforeAll(async () => {
  // The example is always rebuilt, because an existing build may be from older sources.
  await execa("npm", ["run", "build", "-w", "waymark-example-live"], { cwd: root });
}, timeout);

it.skipIf(CHROMIUM === undefined)(
  "a page shows each word once, though it is reloaded and its server is killed (skipped without Chromium: Debian's package chromium)",
  { timeout },
  async () => {
    const database = join(await tempFolder(), "live.db");
    const first = await startServer({ database, port: "0" });
    const { port } = new URL(first.url);
    const browser = await launch();
    onTestFinished(() => browser.close());
    const page = await browser.newPage();
    await page.goto(first.url);
    await page.getByLabel("Subject").fill("the sea");
    await page.getByRole("button").click();
    const draft = page.locator("#part-draft");
    await draft.getByText("it says").waitFor();
    first.process.kill("SIGKILL");
    await page.getByText("connecting again").waitFor();
    await startServer({ database, port });
    await page.getByText("connected", { exact: true }).waitFor();
    await draft.getByText("it says").waitFor();
    await page.reload();
    await page.getByText("done").waitFor();

    const text = (part: string) =>
      `The ${part} about the sea: it says what there is to say, word by word, and it takes its time. `;
    expect(await page.locator("main p").allTextContents()).toEqual(["outline", "draft", "summary"].map(text));
    const id = new URL(page.url()).hash.slice(1);
    const { result } = (await (await fetch(`${first.url}/reports/${id}/result`)).json()) as { result: string };
    expect(result).toBe(["outline", "draft", "summary"].map(text).join("\n"));
  },
);

/** Starts the server as a person would. It ends with the test. */
async function startServer({ database, port }: { readonly database: string; readonly port: string }) {
  const env = { ...process.env, WAYMARK_DATABASE: database, PORT: port, MS_PER_TOKEN: "40" };
  const server: ChildProcess = spawn(process.execPath, [join(example, "dist", "server.js")], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(server, "close");
  onTestFinished(async () => {
    server.kill("SIGINT");
    await ended;
  });
  if (server.stdout === null) throw new Error("Its standard output is a pipe.");
  for await (const url of createInterface({ input: server.stdout })) return { url, process: server };
  throw new Error("The server ended without printing its address.");
}
