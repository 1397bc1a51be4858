// @ts-check
// Makes docs/pictures/ui-*.png, the documentation's pictures of the page: `npm run pictures`. The pictures show real
// runs, two of them with an earlier clock. Needs a build and Chromium.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as work } from "node:timers/promises";
import { chromium } from "playwright-core";
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { z } from "zod";

const DAY_MS = 86_400_000;
const SIZE = { width: 1280, height: 760 };
const root = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "shop-"));
const storage = new SqliteAdapter({ path: join(folder, ".waymark", "checkpoints.db") });
const manager = new CheckpointManager({ storage });
const stop = new AbortController();
try {
  await saveOlder();
  const live = fill();
  await live.ready;
  await takePictures();
  stop.abort();
  await Promise.allSettled(live.running);
} finally {
  await manager.close();
  rmSync(folder, { recursive: true, force: true });
}

/** Saves tasks of two days ago. */
async function saveOlder() {
  const clock = () => Date.now() - 2 * DAY_MS;
  const older = new CheckpointManager({ storage, ownsStorage: false, clock });
  for (let batch = 1; batch <= 16; batch++)
    await older.save("nightly-import", { batch, rows: batch * 250 }, { stage: `batch ${batch}` });
  await older.save("docs-site", { pages: 41, broken: [] }, { label: "Links are checked", status: "paused" });
  await older.run("release-4.1", async (run) => run.step("publish", () => "4.1.0"));
  await older.close();
}

/** Starts tasks of today. `ready` resolves once all of them have reached the state that the pictures show. */
function fill() {
  const options = { signal: stop.signal };
  const refund = manager.run(
    "refund/2291",
    async (run) => {
      await run.step("read the order", () => ({ order: 2291, total: "EUR 240.00", customer: "ann" }));
      const schema = z.object({ approved: z.boolean(), note: z.string().optional() });
      return run.waitFor("approve", { ask: "Refund EUR 240.00 of order 2291 to ann?", schema });
    },
    { ...options, input: { order: 2291 } },
  );
  const importing = manager.run(
    "refund/2288",
    async (run) => {
      await run.step("read the order", () => work(40, { order: 2288 }));
      await run.step("pay back", ({ signal }) => work(DAY_MS, undefined, { signal }));
    },
    options,
  );
  const agent = manager.run(
    "agent/support-7",
    async (run) => {
      const { messages, files } = run.state;
      const reply = await run.step("model", () => work(70, { text: "I will refund it.", calls: ["refund"] }));
      if (messages.length < 5)
        return run.next({ messages: [...messages, { role: "assistant", text: reply.text }], files });
      return run.step("tool refund", () => refuse(), { retry: { times: 3, backoffMs: 40 } });
    },
    {
      ...options,
      input: { customer: "ann" },
      initialState: {
        messages: [{ role: "user", text: "My order 2291 is broken." }],
        files: new Map([
          ["photo.png", { bytes: 48_213n, at: new Date(), digest: new TextEncoder().encode("waymark") }],
        ]),
      },
    },
  );
  const health = manager.run("release-4.2", async (run) => {
    await run.step("build", () => work(120, "4.2.0"));
    await run.step("smoke test", () => {
      throw new Error("GET /health answered 503 instead of 200");
    });
  });
  const running = [refund, importing, agent, health];
  const failed = Promise.allSettled([agent, health]);
  const begun = new Promise((resolve) => manager.on("waitStarted", resolve));
  const ready = Promise.all([failed, begun, manager.enqueue("refund/2295", { order: 2295 })]);
  for (const run of running) run.catch(() => undefined);
  return { running, ready };
}

/** @returns {Promise<never>} */
async function refuse() {
  await work(40);
  throw Object.assign(new Error("The payment provider refused: card expired"), { code: "CARD_EXPIRED" });
}

async function takePictures() {
  const waymark = join(root, "cli", "bin", "waymark.js");
  const args = [waymark, "ui", "--no-open", "--write", "--storage", "sqlite:.waymark/checkpoints.db"];
  const server = spawn(process.execPath, args, { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  try {
    const [url] = await once(createInterface(server.stdout), "line");
    const id = encodeURIComponent((await manager.latest("agent/support-7"))?.id ?? "");
    const agent = `#/task/${encodeURIComponent("agent/support-7")}`;
    for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
      const page = await browser.newPage({ viewport: SIZE, colorScheme, reducedMotion: "reduce" });
      await page.goto(url);
      /** @param {string} name @param {string} place @param {string} text */
      const take = async (name, place, text) => {
        await page.goto(`${new URL(url).origin}/${place}`);
        await page.getByText(text).first().waitFor();
        await page.screenshot({ path: join(root, "docs", "pictures", `ui-${name}-${colorScheme}.png`) });
      };
      await take("tasks", "#/", "failed in the last 24 hours");
      await take("inbox", "#/inbox", "Refund EUR 240.00");
      await take("task", agent, "Result of the step before");
      await take("checkpoint", `${agent}/checkpoint/${id}`, "messages");
      await take("retention", "#/retention/nightly-import", "batch 16");
      await page.close();
    }
  } finally {
    await browser.close();
    server.kill();
  }
}
