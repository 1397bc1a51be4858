import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runCommand } from "waymark-runners/processes";
import { gateLine } from "../../../../runners/src/prp/gates/gate-line.js";
import { inspectGate } from "../../../../runners/src/prp/gates/inspect-gate.js";
import { tempFolder } from "../../../support/temp-folder.js";

/** A server that listens on the port and reports it. With `--fail` it ends with 7, with `--quick` with 0. */
const UVICORN = `#!/usr/bin/env node
const port = process.argv[process.argv.indexOf("--port") + 1];
if (process.argv.includes("--fail")) { console.log("no app"); process.exit(7); }
if (process.argv.includes("--quick")) process.exit(0);
require("node:http").createServer((_, response) => response.end("it is up")).listen(Number(port) || 0, () => console.log("Listening"));
`;
const GET = `fetch(process.argv[2]).then((response) => response.text()).then(console.log, () => process.exit(1));`;

/** Below the ports that systems hand out themselves, so no connection of another test takes one between two calls. */
let lastPort = 20_000 + (process.pid % 10_000);

/** A folder whose `uvicorn` is a server of ours, and a free port. */
async function project() {
  const folder = await tempFolder();
  const bin = join(folder, "node_modules", ".bin");
  await mkdir(bin, { recursive: true });
  await writeFile(join(bin, "uvicorn"), UVICORN, { mode: 0o755 });
  await writeFile(join(folder, "get.cjs"), GET);
  return { folder, port: ++lastPort };
}

async function run(folder: string, command: string) {
  return runCommand(await gateLine({ command, lines: [] }, folder), { killGraceMs: 100 });
}

describe("a server in a gate's foreground", () => {
  it("is started; once its port is open the other lines run, and then it is stopped", async () => {
    const { folder, port } = await project();
    const ran = await run(
      folder,
      `cd . && uvicorn main:app --port ${port}\nnode get.cjs http://localhost:${port}\necho done`,
    );
    expect(ran).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/it is up\ndone\n$/) });
    const [left] = await once(createServer().listen(port), "listening").then(() => ["free"]);
    expect(left).toBe("free");
  });

  it("without a known port is waited for by its output", async () => {
    const { folder } = await project();
    await writeFile(join(folder, "package.json"), JSON.stringify({ scripts: { dev: "uvicorn" } }));
    expect(await run(folder, "npm run dev\necho done")).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/Listening\ndone\n$/),
    });
  });

  it("fails the gate if it ends with a failure, or if a line after it fails", async () => {
    const { folder, port } = await project();
    expect(await run(folder, `uvicorn main:app --fail --port ${port}\necho done`)).toMatchObject({
      exitCode: 7,
      stdout: "no app\n",
    });
    expect(await run(folder, `uvicorn main:app --port ${port}\nfalse\necho done`)).toMatchObject({ exitCode: 1 });
  });

  it("is no server if it ends by itself", async () => {
    const { folder, port } = await project();
    expect(await run(folder, `uvicorn main:app --quick --port ${port}\necho done`)).toMatchObject({
      exitCode: 0,
      stdout: "done\n",
    });
  });

  it("fails the gate if something else has its port", async () => {
    const { folder } = await project();
    const other = createServer().listen(0);
    await once(other, "listening");
    const { port } = other.address() as AddressInfo;
    const { exitCode, stderr } = await run(folder, `uvicorn main:app --port ${port}\necho done`);
    other.close();
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining(`port ${port} is in use already`)]);
  });
});

describe("a script of package.json", () => {
  const warnings = (command: string, scripts: Record<string, string>) =>
    inspectGate({ command: `(${command})`, lines: [] }, scripts).findings.map(({ message }) => message);

  it.each([
    ["npm run dev", {}],
    ["npm start", {}],
    ["pnpm docs:dev", {}],
    ["npm run app", { app: "vite" }],
    ["yarn start:api", { "start:api": "nodemon src/index.js" }],
    ["npm run check", { check: "tsc --watch" }],
  ])("runs until it is ended: %s, %j", (command, scripts) => {
    expect(warnings(command, scripts)).toEqual([expect.stringContaining("doesn't end by itself")]);
  });

  it.each([
    ["npm run start:basic", {}],
    ["npm start", { start: "node examples/basic.js" }],
    ["npm run build", { build: "vite build" }],
    ["npm run dev:seed", {}],
    ["npm test", { test: "vitest run" }],
  ])("ends by itself, or may: %s, %j", (command, scripts) => {
    expect(warnings(command, scripts)).toEqual([]);
  });
});
