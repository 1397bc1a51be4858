// Tests the page in a real browser over real storages.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { deferred } from "../../support/deferred.js";
import { tempFolder } from "../../support/temp-folder.js";
import { newPlace, type Place } from "../waymark.js";
import {
  axeFindings,
  CHROMIUM,
  copiedText,
  focusedText,
  isTooWide,
  launch,
  openPage,
  startUi,
} from "./page-browser.js";

const root = join(import.meta.dirname, "..", "..", "..");
const RELEASE = join(root, "tests", "fixtures", "release-until-killed.mjs");

let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("the page (skipped without Chromium: Debian's package chromium)", () => {
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser.close());

  describe("over what npm start left", () => {
    it("shows the PRP from the list of tasks to a diff, by keys alone", async () => {
      const { page, problems } = await openPage(browser, (await startUi(await exampleStore())).url);
      const { keyboard } = page;
      expect(page.url()).not.toContain("token");
      await page.getByRole("row", { name: /P1\.M1\.T2\.S1.*completed/ }).waitFor();

      await keyboard.press("Enter");
      await page.getByRole("heading", { level: 1, name: "P1.M1.T2.S1" }).waitFor();
      await page.locator(".timeline button").first().waitFor();
      await keyboard.press("k");
      await keyboard.press("k");
      await keyboard.press("d");
      await page.getByRole("heading", { level: 1, name: /^@\d+ → @\d+$/ }).waitFor();
      await page.locator(".changes tbody tr").first().waitFor();
      await keyboard.press("[");
      await keyboard.press("Escape");
      await page.getByRole("tree").waitFor();

      await keyboard.press("/");
      await keyboard.type("validation");
      await page.getByText(/\d+ found/).waitFor();
      await keyboard.press("Enter");
      await expect.poll(() => focusedText(page)).toContain("validation");
      await keyboard.press("c");
      expect(await copiedText(page)).toMatch(/^\$\.\w+/);

      await keyboard.press("Backspace");
      await keyboard.press("Backspace");
      await page.getByRole("heading", { level: 1, name: "Tasks" }).waitFor();
      await keyboard.press("?");
      await page.getByRole("dialog").getByText("one level up").waitFor();
      await keyboard.press("Escape");
      expect(await page.getByRole("dialog").count()).toBe(0);
      expect(problems).toEqual([]);
    });
  });

  describe("over runs that were killed, failed and rewound", () => {
    it("shows every view without a finding of axe, in light and dark, from 360 to 2,560 px", async () => {
      const place = await releaseStore();
      await workOnRefunds(place);
      const { url } = await startUi(place, ["--write"]);
      const findings: string[] = [];
      for (const width of [360, 1280, 2560]) {
        const { page, go, problems } = await openPage(browser, url, { width, height: 760 });
        for (const [name, fragment, ready] of await viewsOf(place)) {
          await go(fragment);
          await page.getByText(ready).first().waitFor();
          if (name === "storage") {
            await page.keyboard.press("v");
            await page.getByText("everything is intact").waitFor();
          }
          if (await isTooWide(page)) findings.push(`${name} is wider than ${width} px`);
          for (const colorScheme of ["light", "dark"] as const) {
            await page.emulateMedia({ colorScheme });
            for (const finding of await axeFindings(page))
              findings.push(`${name}, ${width} px, ${colorScheme}: ${finding}`);
          }
        }
        findings.push(...problems);
      }
      expect(findings).toEqual([]);
    }, 300_000);

    it("reports why a release failed, and when it was killed before", async () => {
      const place = await releaseStore();
      const { page, problems } = await openPage(browser, (await startUi(place)).url);
      await page.getByRole("link", { name: "release-4.2", exact: true }).first().click();
      await page.getByText("GET /health answered 503 instead of 200").first().waitFor();
      await page.getByText("Caused by").waitFor();
      await page.getByText("connect ECONNREFUSED 10.0.4.7:5432").first().waitFor();
      const timeline = page.getByRole("region", { name: "Timeline" });
      await timeline.getByText("Attempt 1 was interrupted").waitFor();
      await timeline.getByRole("button", { name: /^deploy to staging attempt 2 26 s/ }).waitFor();
      const tests = timeline.getByRole("button", { name: /^unit tests from storage .*2 tries$/ });
      expect(await tests.locator(".bar-of-step").count()).toBe(2);
      await tests.click();
      const selection = page.getByRole("region", { name: "Selection" });
      await selection.getByRole("region", { name: "Result of unit tests" }).getByText('"passed": 412').waitFor();
      await selection.getByRole("link", { name: /^State after it/ }).click();
      await page.getByRole("heading", { level: 1, name: /^@/ }).waitFor();
      await page.goBack();
      await selection.getByRole("heading", { name: "unit tests" }).waitFor();
      await page
        .getByRole("link", { name: /^@\d+$/ })
        .first()
        .click();
      await page.getByRole("heading", { level: 1, name: "Run failed in smoke test" }).waitFor();
      await page.locator(".problem").getByText("GET /health answered 503 instead of 200").first().waitFor();
      expect(problems).toEqual([]);
    });

    it("returns to the list as it was filtered, by Esc and by the link above", async () => {
      const { page, go, problems } = await openPage(browser, (await startUi(await releaseStore())).url);
      const filtered = "#/tasks?status=failed&prefix=release";
      for (const leave of [
        () => page.keyboard.press("Escape"),
        () => page.getByRole("navigation", { name: "Above" }).getByRole("link", { name: "Tasks" }).click(),
      ]) {
        await go(filtered);
        await page.getByRole("link", { name: "release-4.2", exact: true }).first().click();
        await page.getByRole("heading", { level: 1, name: "release-4.2" }).waitFor();
        await leave();
        await page.getByRole("heading", { level: 1, name: "Tasks" }).waitFor();
        expect(new URL(page.url()).hash).toBe(filtered);
      }
      expect(problems).toEqual([]);
    });

    it("comes back to a place by the browser's own buttons and after a reload", async () => {
      const { page, go, problems } = await openPage(browser, (await startUi(await releaseStore())).url);
      await go("#/task/release-4.2");
      await page.getByRole("heading", { level: 1, name: "release-4.2" }).waitFor();
      await page.reload();
      await page.getByRole("heading", { level: 1, name: "release-4.2" }).waitFor();
      await page.goBack();
      await page.getByRole("heading", { level: 1, name: "Tasks" }).waitFor();
      expect(problems).toEqual([]);
    });

    it("shows rich values with their types", async () => {
      const place = await releaseStore();
      const { page, go } = await openPage(browser, (await startUi(place)).url);
      await go("#/task/release-4.2");
      await page
        .getByRole("row", { name: /^@\d+ .*Both platforms are built/ })
        .getByRole("link")
        .first()
        .click();
      const tree = page.getByRole("tree");
      await tree.getByText("Map(2)").waitFor();
      for (const text of ["180000n", "date", "Uint8Array, 7 bytes", "Set(0)"])
        await tree.getByText(text).first().waitFor();
    });
  });

  describe("with --write", () => {
    it("forks, rewinds, completes, prunes and removes, each after a question", async () => {
      const place = await releaseStore();
      const { page, go, problems } = await openPage(browser, (await startUi(place, ["--write"])).url);
      const dialog = page.getByRole("dialog");
      await go("#/task/nightly-import");
      await page.getByRole("link", { name: "@12", exact: true }).click();

      await page.getByRole("button", { name: "Fork …" }).click();
      expect(await dialog.getByRole("button", { name: "Fork" }).isDisabled()).toBe(true);
      const field = dialog.getByLabel("Name of the new task");
      await field.fill("nightly-import");
      await page.keyboard.press("Enter");
      await dialog.getByRole("alert").waitFor();
      expect(await field.evaluate("document.activeElement.tagName")).toBe("INPUT");
      await field.fill("try again");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { level: 1, name: "try again" }).waitFor();

      await page.getByRole("button", { name: "Commands" }).click();
      await page.getByRole("button", { name: "Complete …" }).click();
      await dialog.getByRole("button", { name: "Complete" }).click();
      await page.locator(".heading .status", { hasText: "completed" }).waitFor();
      await expect.poll(() => focusedText(page)).toBe("try again");
      await page.getByText("The task is completed.").waitFor();

      await go("#/task/nightly-import");
      await page.getByRole("heading", { level: 1, name: "nightly-import" }).waitFor();
      expect(await page.getByText("The task is completed.").count()).toBe(0);
      await page.getByRole("link", { name: "@9", exact: true }).click();
      await page.getByRole("button", { name: "Rewind …" }).click();
      await dialog.getByRole("button", { name: "Cancel" }).click();
      expect(await dialog.count()).toBe(0);
      await page.getByRole("button", { name: "Rewind …" }).click();
      await dialog.getByRole("button", { name: "Rewind" }).click();
      await page.getByRole("link", { name: "@17", exact: true }).first().waitFor();

      await go("#/retention/nightly-import");
      await page.getByRole("slider", { name: "Keep the last" }).fill("1");
      await page.getByText("stay 2 checkpoints").waitFor();
      await page.getByRole("button", { name: "Prune …" }).click();
      await dialog.getByRole("button", { name: /^Remove \d+ checkpoints$/ }).click();
      await page.getByText("go 0 checkpoints").waitFor();

      await go("#/task/try~0020again");
      await page.getByRole("button", { name: "Commands" }).click();
      await page.getByRole("button", { name: "Remove …" }).click();
      await dialog.getByRole("button", { name: "Remove" }).click();
      await page.getByRole("heading", { level: 1, name: "Tasks" }).waitFor();

      const manager = await managerOf(place);
      expect(await manager.has("try again")).toBe(false);
      expect((await manager.list("nightly-import")).map(({ sequence }) => sequence)).toEqual([17, 16]);
      // The browser itself reports the refused fork.
      expect(problems).toEqual([expect.stringContaining("status of 409")]);
    });

    it("is offered nowhere else: without it there are only commands to copy", async () => {
      const { cwd } = await releaseStore();
      const place = { cwd };
      const { page, go } = await openPage(browser, (await startUi(place, ["--storage", "sqlite:checkpoints.db"])).url);
      await go("#/task/nightly-import");
      await page.getByRole("button", { name: "Commands" }).click();
      expect(await page.getByRole("button", { name: /…$/ }).count()).toBe(0);
      await page.getByRole("button", { name: /^Copy the command: Remove it/ }).click();
      await page.getByText("Copied.").waitFor();
      expect(await copiedText(page)).toBe(`npx waymark delete --storage sqlite:${cwd}/checkpoints.db nightly-import`);
    });
  });

  it("shows 100,000 tasks a screen at a time", async () => {
    const place = await manyTasks(100_000);
    const { page, problems } = await openPage(browser, (await startUi(place)).url);
    await page.getByText("100,000 tasks").waitFor();
    expect(await page.getByRole("row").count()).toBeLessThan(80);
    await page.getByRole("combobox", { name: "Order" }).selectOption("taskId");
    await page.getByRole("link", { name: "task-000000" }).first().waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("End");
    await page.getByRole("link", { name: "task-099999" }).first().waitFor();
    await page.keyboard.press("Home");
    await page.getByRole("link", { name: "task-000000" }).first().waitFor();
    await page.getByRole("combobox", { name: "Search for" }).selectOption("prefix");
    await page.getByRole("searchbox", { name: "Search" }).fill("task-0777");
    await page.getByText("100 tasks of 100,000").waitFor();
    // A status that no task has is offered only by its key.
    await page.keyboard.press("Tab");
    await page.keyboard.press("f");
    await page.getByText("No task matches").waitFor();
    expect(await page.getByRole("row").count()).toBeLessThan(80);
    expect(problems).toEqual([]);
  }, 300_000);

  it("reports what is damaged, and moves it away after a question", async () => {
    const { cwd, place, manager } = await newPlace("files:store");
    for (let n = 1; n <= 3; n += 1) await manager.save("t", { n });
    await manager.close();
    const folder = join(cwd, "store", "t");
    const [, , newest = ""] = readdirSync(folder)
      .filter((name) => name.startsWith("0"))
      .sort();
    writeFileSync(join(folder, newest), readFileSync(join(folder, newest), "utf8").slice(0, 20));

    const { page, go, problems } = await openPage(browser, (await startUi(place, ["--write"])).url);
    await page.getByText("1 record can't be read.").waitFor();
    await page.getByRole("row", { name: /t damaged/ }).waitFor();
    await go("#/task/t");
    await page.getByText("⚠ @3 can't be read").waitFor();
    await page.locator(".branches").getByRole("link", { name: "@3" }).click();
    await page.getByText("The checkpoint can't be shown").waitFor();
    await page.getByText("The newest checkpoint that can be read is @2.").waitFor();
    await page.getByText(/^npx waymark repair/).waitFor();
    expect(await axeFindings(page)).toEqual([]);
    await page.getByRole("link", { name: "← Before: @2" }).click();
    await page.getByRole("tree").waitFor();
    await go("#/storage");
    await page.getByRole("button", { name: /^Look for damage/ }).click();
    await page.getByText("1 finding.").waitFor();
    expect(await axeFindings(page)).toEqual([]);
    await page.getByRole("button", { name: "Repair …" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Repair" }).click();
    await page.getByText("everything is intact").waitFor();
    await page.getByRole("heading", { name: "Quarantine" }).waitFor();
    expect(problems).toEqual([expect.stringContaining("status of 422")]);
  });

  it("shows hostile names as text, and opens what they name", async () => {
    const { place, manager } = await newPlace();
    const names = [
      "<script>alert(1)</script>",
      '"><img src=x onerror=alert(1)>',
      "javascript:alert(1)",
      "bell \u0007 and null \u0000",
      "right \u202e to left",
      "../../etc/passwd",
      "x".repeat(512),
      "w".repeat(256) + " ".repeat(256),
    ];
    for (const name of names) {
      await manager.save(name, { [name]: name }, { stage: name.slice(0, 100), label: name.slice(0, 100) });
    }
    await manager.close();
    const { page, go, problems } = await openPage(browser, (await startUi(place)).url, { width: 360 });
    for (let index = 0; index < names.length; index += 1) {
      await go("#/tasks?order=taskId");
      await page.getByText(`${names.length} tasks`).waitFor();
      await page.keyboard.press("Home");
      for (let count = 0; count < index; count += 1) await page.keyboard.press("j");
      const [wanted = ""] = [...names].sort().slice(index);
      await page.locator(".peek").getByText(wanted.slice(0, 4)).first().waitFor();
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Checkpoints" }).waitFor();
      expect(await page.locator("h1").innerText()).toContain(wanted.slice(0, 4));
      expect(await isTooWide(page)).toBe(false);
      await page.keyboard.press("Enter");
      await page.getByRole("tree").waitFor();
      expect(await isTooWide(page)).toBe(false);
    }
    await go("#/tasks?order=taskId");
    await page.locator("h1", { hasText: "Tasks" }).waitFor();
    await page.getByText("␇").first().waitFor();
    expect(await axeFindings(page)).toEqual([]);
    expect(problems).toEqual([]);
  });

  it("follows a storage that changes, and reports when the server is gone", async () => {
    const { place, manager } = await newPlace();
    await manager.save("first", { n: 1 }, { stage: "one" });
    const { url, stop } = await startUi(place);
    const { page, go } = await openPage(browser, url);
    await page.getByText("live").waitFor();
    await manager.save("second", { n: 1 }, { stage: "two" });
    await page.getByRole("row", { name: /second/ }).waitFor();

    await go("#/task/first");
    await page.getByRole("link", { name: "@1", exact: true }).first().waitFor();
    await manager.save("first", { n: 2 }, { stage: "three", status: "paused" });
    await page.getByRole("link", { name: "@2", exact: true }).first().waitFor();
    await page.locator(".heading .status", { hasText: "paused" }).waitFor();
    await manager.removeTask("first");
    await page.getByText("The task was removed meanwhile.").waitFor();

    await stop();
    await page.getByRole("alert").getByText("Connection lost").waitFor();
    await manager.close();
  });

  it("still shows a task that is removed while the page reads it again", async () => {
    const { place, manager } = await newPlace();
    await manager.save("t", { n: 1 }, { stage: "one" });
    const { url } = await startUi(place);
    const { page, go } = await openPage(browser, url);
    await go("#/task/t");
    await page.getByText("live").waitFor();
    await page.getByRole("link", { name: "@1", exact: true }).first().waitFor();
    await page.route("**/api/task", async (route) => {
      await manager.removeTask("t");
      await route.continue();
    });
    await manager.save("t", { n: 2 });
    await page.getByText("The task was removed meanwhile.").waitFor();
    await page.getByRole("heading", { level: 1, name: "t" }).waitFor();
    await manager.close();
  });

  it("works in a new tab while another one is open", async () => {
    const { place, manager } = await newPlace();
    await manager.save("t", {});
    await manager.close();
    const { page, problems } = await openPage(browser, (await startUi(place)).url);
    const opened = page.context().waitForEvent("page");
    await page
      .getByRole("link", { name: "t", exact: true })
      .first()
      .click({ modifiers: ["Control"] });
    const other = await opened;
    await other.getByRole("heading", { level: 1, name: "t" }).waitFor();
    expect(other.url()).not.toContain("token");
    expect(await other.evaluate("Object.keys(localStorage).filter((key) => key.includes('token'))")).toEqual([]);
    expect(problems).toEqual([]);
  });

  it("compares from old to new, and reports why it can't", async () => {
    const { place, manager } = await newPlace();
    for (let n = 1; n <= 3; n += 1) await manager.save("t", { n });
    await manager.save("other", {});
    await manager.close();
    const { page, go, problems } = await openPage(browser, (await startUi(place)).url);
    const { keyboard } = page;
    await go("#/task/t");
    await page.getByRole("button", { name: "Saved @3" }).waitFor();
    await keyboard.press("m");
    await keyboard.press("Home");
    await keyboard.press("d");
    await page.getByRole("heading", { level: 1, name: "@1 → @3" }).waitFor();
    await go("#/task/t");
    await page.getByText("compares with the marked one").waitFor();
    await go("#/task/other");
    await page.getByText("The mark is gone").waitFor();
    await page.getByRole("button", { name: "Saved @1" }).waitFor();
    await keyboard.press("d");
    await page.getByText("there is none before it").waitFor();
    await keyboard.press("Enter");
    await page.getByRole("tree").waitFor();
    expect(await page.getByRole("button", { name: /^Changes/ }).isDisabled()).toBe(true);
    await keyboard.press("/");
    await keyboard.press("Escape");
    expect(await page.evaluate("document.activeElement.getAttribute('role')")).toBe("treeitem");
    await go("#/nowhere");
    await page.getByText("The address names no place of this page.").waitFor();
    expect(problems).toEqual([]);
  });

  it("asks for the printed address if it has no token", async () => {
    const { place, manager } = await newPlace();
    await manager.save("t", {});
    await manager.close();
    const { url } = await startUi(place);
    const { page } = await openPage(browser, new URL("/", url).href);
    await page.getByText('Open the address that "waymark ui" printed').waitFor();
    await page.getByRole("heading", { name: "This page needs its token" }).waitFor();
    expect(await page.getByText("sqlite").count()).toBe(0);
  });
});

/** The checkpoints that the example of `npm start` leaves. */
async function exampleStore(): Promise<Place> {
  await execa("npm", ["run", "build", "-w", "waymark-example-prp-pipeline"], { cwd: root });
  const main = join(root, "examples", "prp-pipeline", "dist", "main.js");
  const { all } = await execa("node", [main], { cwd: root, env: { INIT_CWD: root, CI: "true" }, all: true });
  const [, folder = ""] = /^ {2}\$ node \S+ (\S+)$/m.exec(all) ?? [];
  return { cwd: root, env: { WAYMARK_STORAGE: `tasks:${join(folder, "session", "artifacts")}` } };
}

/** A release that was killed and then failed, an import with a rewind, and some others. */
async function releaseStore(): Promise<Place> {
  const cwd = await tempFolder();
  const path = join(cwd, "checkpoints.db");
  for (const attempt of ["1", "2"]) await execa("node", [RELEASE, path, attempt], { reject: false });
  let nowMs = Date.UTC(2026, 10, 23, 2);
  const storage = openStorage(`sqlite:${path}`);
  await using manager = new CheckpointManager({ storage, ownsStorage: true, clock: () => nowMs });
  for (let batch = 1; batch <= 16; batch += 1) {
    nowMs += 60_000 + ((batch * 7919) % 240_000);
    if (batch === 11) {
      const seventh = (await manager.list("nightly-import")).find(({ sequence }) => sequence === 7);
      if (seventh) await manager.rewind("nightly-import", seventh.id);
      continue;
    }
    const rows = Array.from({ length: batch * 3 }, (_, row) => ({ row, amount: (row * 7919) % 1000 }));
    await manager.save(
      "nightly-import",
      { batch, rows, source: "s3://exports/2026-11-23.csv" },
      { stage: `batch ${batch}` },
    );
  }
  nowMs = Date.UTC(2026, 10, 24, 12);
  await manager.save("release-4.1", { version: "4.1.0" }, { stage: "published", status: "completed" });
  await manager.save("docs-site", { pages: 48 }, { stage: "links", label: "Links are checked", status: "paused" });
  await manager.save("agent/ann", { turn: 12 }, { stage: "turn" });
  return { cwd, env: { WAYMARK_STORAGE: `sqlite:${path}` } };
}

/**
 * A worker's refunds: one is cancelled, one waits, and one runs until the end of the test, so that another one is due.
 */
async function workOnRefunds(place: Place): Promise<void> {
  const manager = await managerOf(place);
  const isPaid = deferred<void>();
  const stopping = new AbortController();
  const options = { prefix: "refund/", signal: stopping.signal, leaseOptions: { holder: "worker-2" } };
  const working = manager.work(options, async (run) => {
    await run.step("read the order", () => ({ order: run.input, isPaid: true }));
    if (run.taskId !== "refund/2288") await run.waitFor("approve", { timeoutMs: 3 * 24 * 3_600_000 });
    await run.step("pay back", () => isPaid.promise);
  });
  onTestFinished(async () => {
    stopping.abort();
    isPaid.resolve();
    await working;
    await manager.close();
  });
  for (const order of [2280, 2291, 2288]) {
    const stands = new Promise<void>((resolve) => {
      manager.on("runPaused", () => resolve());
      manager.on("stepStarted", ({ step }) => step === "pay back" && resolve());
    });
    await manager.enqueue(`refund/${order}`, { order, euros: 412 });
    await stands;
  }
  await manager.cancel("refund/2280", "The customer keeps it");
  await manager.send("refund/2291", "note", { text: "Asked the warehouse" }, { by: "ada@example.org" });
  await manager.enqueue("refund/2295", { order: 2295, euros: 80 });
}

async function managerOf({ env }: Place): Promise<CheckpointManager> {
  return new CheckpointManager({ storage: openStorage(String(env?.["WAYMARK_STORAGE"])), ownsStorage: true });
}

/** Each view's name, its place, and a text that it shows when it is ready. */
async function viewsOf(place: Place): Promise<readonly (readonly [string, string, string | RegExp])[]> {
  await using manager = await managerOf(place);
  const [failed] = await manager.list("release-4.2");
  const [, before, earlier] = await manager.list("nightly-import");
  return [
    ["tasks", "#/tasks", "nightly-import"],
    ["task", "#/task/release-4.2", "Attempt 1 was interrupted"],
    ["waits", "#/task/refund~002f2291", "For the event"],
    ["history", "#/task/nightly-import", "batch 16"],
    ["checkpoint", `#/task/release-4.2/checkpoint/${failed?.id}`, "GET /health answered 503 instead of 200"],
    ["diff", `#/task/nightly-import/diff/${earlier?.id}/${before?.id}`, "batch"],
    ["retention", "#/retention/nightly-import", "last 1 of 5"],
    ["storage", "#/storage", "On the disk"],
  ];
}

async function manyTasks(count: number): Promise<Place> {
  const { place, manager } = await newPlace();
  for (let first = 0; first < count; first += 5000) {
    const tasks = Array.from({ length: 5000 }, (_, index) => `task-${String(first + index).padStart(6, "0")}`);
    await Promise.all(tasks.map((task) => manager.save(task, { task }, { stage: "begun", status: "completed" })));
  }
  await manager.close();
  return place;
}
