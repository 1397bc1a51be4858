// Tests which requests `waymark ui` accepts, and what it changes.
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { createInterface } from "node:readline";
import { expect, it, onTestFinished } from "vitest";
import { newPlace, start, waymark } from "../waymark.js";
import { type Served, served } from "./served.js";

async function pageOfOne(options: Parameters<typeof served>[1] = {}) {
  const { cwd, manager } = await newPlace();
  const { id } = await manager.save("build-1", { secret: 42 });
  await manager.close();
  return { cwd, id, page: await served("sqlite:checkpoints.db", { cwd, ...options }) };
}

/** Sends headers that `fetch` doesn't let a program set. */
function statusWith(page: Served, headers: Record<string, string>, path = "/api/session"): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = page.url;
    const method = path === "/" ? "GET" : "POST";
    const sent = httpRequest({ hostname, port, path, method, headers }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode));
    });
    sent.on("error", reject).end(method === "POST" ? "{}" : undefined);
  });
}

it("answers nobody without the token, and under no other name", async () => {
  const { page } = await pageOfOne();
  const { host } = page.url;
  const right = { Authorization: `Bearer ${page.token}`, Host: host };
  expect(await statusWith(page, right)).toBe(200);
  expect(await statusWith(page, { ...right, Host: host.replace("127.0.0.1", "localhost") })).toBe(200);
  expect(await statusWith(page, { ...right, Origin: `http://${host}` })).toBe(200);

  expect(await statusWith(page, { Host: host })).toBe(401);
  expect(await statusWith(page, { ...right, Authorization: `Bearer ${page.token}x` })).toBe(401);
  expect(await statusWith(page, { ...right, Authorization: page.token })).toBe(401);
  expect(await statusWith(page, { ...right, Host: "evil.example" })).toBe(403);
  expect(await statusWith(page, { ...right, Host: "127.0.0.1:1" })).toBe(403);
  expect(await statusWith(page, { ...right, Origin: "http://evil.example" })).toBe(403);
  expect(await statusWith(page, { ...right, Origin: "null" })).toBe(403);
  expect(await statusWith(page, { Host: "evil.example" }, "/")).toBe(403);
});

it("puts the token into the fragment alone, and prints no state", async () => {
  const { page } = await pageOfOne();
  expect(page.url.hostname).toBe("127.0.0.1");
  expect(page.token).toMatch(/^[\w-]{43}$/);
  expect(page.url.search).toBe("");
  await page.ask("checkpoint", { taskId: "build-1" });
  await page.refused("checkpoint", { taskId: "build-1", id: "none" });
  expect(page.printed()).toBe("");
});

it("serves the page with a strict policy, and no other file", async () => {
  const { page } = await pageOfOne();
  const index = await page.fetch("/");
  expect([index.status, index.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
  expect(index.headers.get("content-security-policy")).toMatch(/^default-src 'none'; script-src 'self';/);
  expect(index.headers.get("content-security-policy")).not.toContain("unsafe");
  expect(index.headers.get("x-content-type-options")).toBe("nosniff");
  expect(index.headers.get("referrer-policy")).toBe("no-referrer");
  for (const path of ["/../package.json", "/%2e%2e/package.json", "/constructor", "/server.js"]) {
    expect((await page.fetch(path)).status).toBe(404);
  }
  const api = await page.fetch("/api/session", { method: "POST", body: "{}" });
  expect(api.headers.get("cache-control")).toBe("no-store");
  expect(api.headers.get("access-control-allow-origin")).toBeNull();
});

it("refuses requests that aren't JSON, or too large", async () => {
  const { page } = await pageOfOne();
  const headers = { Authorization: `Bearer ${page.token}` };
  const post = (body: string) => page.fetch("/api/session", { method: "POST", headers, body });
  expect((await post("{")).status).toBe(400);
  expect((await post(`"${"x".repeat(2 * 1024 * 1024)}"`)).status).toBe(413);
  expect((await page.fetch("/api/session", { headers })).status).toBe(404);
});

it("changes nothing without --write", async () => {
  const { cwd, id, page } = await pageOfOne();
  const changes = {
    fork: { taskId: "build-1", id, newTaskId: "new" },
    rewind: { taskId: "build-1", id },
    complete: { taskId: "build-1", expectedSequence: 1 },
    delete: { taskId: "build-1" },
    prune: { planId: "x" },
    repair: {},
  };
  for (const [name, request] of Object.entries(changes)) {
    const refused = await page.refused(name, request);
    expect(refused).toMatchObject({ status: 403, code: "READ_ONLY" });
    expect(refused.message).toContain("--write");
  }
  const { stdout } = await waymark({ cwd, env: { WAYMARK_STORAGE: "sqlite:checkpoints.db" } }, ["tasks", "--json"]);
  expect(JSON.parse(stdout)).toMatchObject([{ taskId: "build-1", count: 1, newest: { status: "running" } }]);
});

it("forks, rewinds, completes, prunes and deletes with --write, and lets go of each task", async () => {
  const { cwd, manager } = await newPlace();
  for (let n = 1; n <= 4; n += 1) await manager.save("build-1", { n });
  const [newest] = await manager.list("build-1");
  const oldest = (await manager.list("build-1")).at(-1)!;
  const page = await served("sqlite:checkpoints.db", { cwd, canWrite: true });
  expect(await page.ask("session", {})).toMatchObject({ canWrite: true });

  const forked = await page.ask("fork", { taskId: "build-1", id: oldest.id, newTaskId: "build-2" });
  expect(forked).toMatchObject({ taskId: "build-2", checkpoint: { sequence: 1 } });
  expect((await manager.latest("build-2"))?.state).toEqual({ n: 1 });
  expect(await page.refused("fork", { taskId: "build-1", id: oldest.id, newTaskId: "build-2" })).toMatchObject({
    status: 409,
    code: "CHECKPOINT_CONFLICT",
    message: expect.stringMatching(/^Task "build-2" already has checkpoints/),
  });
  for (const newTaskId of ["", "  "]) {
    expect(await page.refused("fork", { taskId: "build-1", id: oldest.id, newTaskId })).toMatchObject({
      status: 400,
      message: "The new task's name is blank. Nothing was stored; give it a name.",
    });
  }
  await page.ask("rewind", { taskId: "build-1", id: oldest.id });
  expect(await manager.latest("build-1")).toMatchObject({ state: { n: 1 }, sequence: 5, parentId: oldest.id });
  expect(await page.refused("complete", { taskId: "build-1", expectedSequence: 4 })).toMatchObject({ status: 409 });
  expect(await page.ask("complete", { taskId: "build-1", expectedSequence: 5 })).toMatchObject({
    checkpoint: { status: "completed" },
  });

  const { planId } = await page.ask("retention", { taskId: "build-1", policy: { keepLast: 2 } });
  const outdated = await page.ask("retention", { taskId: "build-1", policy: { keepLast: 2 } });
  expect(await page.ask("prune", { planId })).toMatchObject({ removed: 3, failed: [] });
  expect(await page.refused("prune", { planId })).toMatchObject({ status: 409 });
  await page.ask("delete", { taskId: "build-1", id: newest!.id });
  expect(await page.refused("delete", { taskId: "build-1", id: newest!.id })).toMatchObject({ status: 404 });
  expect(await page.refused("prune", { planId: outdated.planId })).toMatchObject({
    status: 409,
    code: "PLAN_OUTDATED",
  });
  expect(await page.ask("delete", { taskId: "build-1" })).toMatchObject({ removed: 1 });
  expect(await manager.has("build-1")).toBe(false);
  for (const taskId of ["build-1", "build-2"]) expect(await manager.leaseOf(taskId)).toBeUndefined();
  await manager.close();
});

it("changes no task that a process runs, unless forced", async () => {
  const { cwd, manager } = await newPlace();
  await manager.save("build-1", {});
  await using _lease = await manager.lease("build-1", { holder: "worker-1" });
  const page = await served("sqlite:checkpoints.db", { cwd, canWrite: true });
  const request = { taskId: "build-1", expectedSequence: 1 };
  const refused = await page.refused("complete", request);
  expect(refused).toMatchObject({ status: 409, causes: [{ code: "LEASE_HELD" }] });
  expect(refused.message).toContain("worker-1");
  await page.ask("complete", { ...request, force: true });
  expect((await manager.latest("build-1"))?.status).toBe("completed");
  await manager.close();
});

it("prints the URL, serves until Ctrl-C, and ends at once though a page watches", async () => {
  const { cwd } = await pageOfOne();
  const args = ["ui", "--no-open", "--storage", "sqlite:checkpoints.db"];
  const child = start({ cwd }, args, { stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [line] = await once(createInterface(child.stdout!), "line");
  const { origin, hash } = new URL(line);
  const watch = await fetch(`${origin}/api/watch-tasks`, {
    method: "POST",
    headers: { Authorization: `Bearer ${new URLSearchParams(hash.slice(1)).get("token")}` },
    body: JSON.stringify({ visible: [] }),
  });
  expect(watch.headers.get("content-type")).toContain("text/event-stream");
  await watch.body!.getReader().read();
  child.kill("SIGINT");
  expect(await once(child, "close")).toEqual([null, "SIGINT"]);
});

it("reports which port is taken", async () => {
  const { cwd, page } = await pageOfOne();
  const { code, stderr } = await waymark({ cwd, env: { WAYMARK_STORAGE: "sqlite:checkpoints.db" } }, [
    "ui",
    "--no-open",
    "--port",
    page.url.port,
  ]);
  expect(code).toBe(1);
  expect(stderr).toContain(`port ${page.url.port} of 127.0.0.1: another program listens there`);
});
