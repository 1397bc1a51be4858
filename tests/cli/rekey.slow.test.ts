import { once } from "node:events";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { CheckpointManager, encrypt, gzip } from "waymark";
import { openStorage } from "waymark/adapters";
import { newPlace, recordsOf, start, waymark, waymarkProcess } from "./waymark.js";

const KEYS = { old: Buffer.alloc(32, 1), current: Buffer.alloc(32, 2) };
const COUNT = 8;

const SDK = pathToFileURL(join(import.meta.dirname, "..", "..", "dist", "src", "index.js")).href;

/** A configuration with both keys. At the encryption with a certain number, the process sends itself `signal`. */
function configure(
  cwd: string,
  { signal, at = 0, keys = "old, current" } = {} as { signal?: string; at?: number; keys?: string },
) {
  const source = `
    import { encrypt, gzip } from ${JSON.stringify(SDK)};
    const old = Buffer.alloc(32, 1), current = Buffer.alloc(32, 2);
    const transform = encrypt({ keys: { ${keys} }, current: "current" });
    let encoded = 0;
    async function encode(body, context) {
      encoded += 1;
      if (encoded === ${at}) process.kill(process.pid, ${JSON.stringify(signal ?? "SIGKILL")});
      return transform.encode(body, context);
    }
    export default { transforms: [gzip(), { ...transform, encode }] };`;
  writeFileSync(join(cwd, "waymark.config.mjs"), source);
}

/** A store with plain checkpoints, some under the old key, and one under the current key. */
async function mixedPlace(url: string) {
  const place = await newPlace(url);
  await place.manager.close();
  const save = async (n: number, transforms: CheckpointManagerTransforms) => {
    const manager = new CheckpointManager({ storage: openStorage(url, { relativeTo: place.cwd }), transforms });
    await manager.save(`task-${n % 2}`, { n }, { stage: `s${n}` });
    await manager.close();
  };
  for (let n = 1; n <= COUNT; n++) {
    if (n <= 2) await save(n, []);
    else if (n < COUNT) await save(n, [gzip(), encrypt({ keys: { old: KEYS.old }, current: "old" })]);
    else await save(n, [gzip(), encrypt({ keys: { current: KEYS.current }, current: "current" })]);
  }
  return place;
}

type CheckpointManagerTransforms = ConstructorParameters<typeof CheckpointManager>[0]["transforms"];

const isCurrent = ({ payload: { body } }: Awaited<ReturnType<typeof recordsOf>>[number]) =>
  typeof body !== "string" && Buffer.from(body.subarray(2, 9)).toString() === "current";

async function statesByCurrentKey(cwd: string, url: string) {
  const transforms = [gzip(), encrypt({ keys: { current: KEYS.current }, current: "current", requireEncrypted: true })];
  const manager = new CheckpointManager({ storage: openStorage(url, { relativeTo: cwd }), transforms });
  const states: unknown[] = [];
  for (const { taskId } of await manager.tasks()) {
    for await (const { state } of manager.history(taskId, { order: "oldest" })) states.push(state);
  }
  await manager.close();
  return states;
}

const ALL = [2, 4, 6, 8, 1, 3, 5, 7].map((n) => ({ n }));

describe.each(["files:store", "tasks:store", "sqlite:store.db"])("waymark rekey of %s", (url) => {
  it("encrypts everything under the current key, in one run", async () => {
    const { cwd, run } = await mixedPlace(url);
    configure(cwd);
    expect(await run("rekey")).toEqual({
      code: 0,
      stderr: "",
      stdout: "Rekeyed 7 payloads; 1 had the current key already.\n",
    });
    expect(await statesByCurrentKey(cwd, url)).toEqual(ALL);
    expect((await run("rekey")).stdout).toBe("Rekeyed 0 payloads; 8 had the current key already.\n");
    const shown = await run("show", "task-1", "--path", "n");
    expect(shown).toMatchObject({ code: 0, stdout: "7\n" });
  });

  it("completes in a second run after a kill -9 in the middle", async () => {
    const { cwd, place, run } = await mixedPlace(url);
    for (const at of [1, 3]) {
      configure(cwd, { signal: "SIGKILL", at });
      const child = start(place, ["rekey"], { stdio: "ignore" });
      const [code, signal] = await once(child, "close");
      expect([code, signal]).toEqual([null, "SIGKILL"]);
      const done = (await recordsOf(cwd, url)).filter(isCurrent).length;
      expect(done).toBe(1 + (at - 1));
    }
    configure(cwd);
    expect((await run("rekey")).stdout).toBe("Rekeyed 5 payloads; 3 had the current key already.\n");
    expect(await statesByCurrentKey(cwd, url)).toEqual(ALL);
  });

  it("reports at Ctrl-C how much is left, and the next run does the rest", async () => {
    const { cwd, place, run } = await mixedPlace(url);
    configure(cwd, { signal: "SIGINT", at: 2 });
    const child = start(place, ["rekey"], { stdio: ["ignore", "pipe", "pipe"] });
    let stdout = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    const [code, signal] = await once(child, "close");
    // The exit code is the same as without a listener, which a shell shows as 130.
    expect([code, signal]).toEqual([null, "SIGINT"]);
    // A signal takes some time to arrive, so one or two more may have been rewritten by then.
    const [, rewritten, left] =
      /^Rekeyed (\d) .*\nStopped: (\d) payloads left\. Run it again to continue\.\n$/.exec(stdout) ?? [];
    expect([Number(rewritten) + Number(left), Number(left) > 2], stdout).toEqual([COUNT, true]);
    configure(cwd);
    expect((await run("rekey")).code).toBe(0);
    expect(await statesByCurrentKey(cwd, url)).toEqual(ALL);
  });

  it("is copied, exported and imported unchanged without any key", async () => {
    const { cwd, run, place } = await mixedPlace(url);
    const records = await recordsOf(cwd, url);
    expect((await run("copy", "--to", "sqlite:copy.db")).stdout).toContain("8 of 8 identical");
    expect(await recordsOf(cwd, "sqlite:copy.db")).toEqual(records);
    const exported = (await run("export")).stdout;
    expect(exported).not.toContain(KEYS.old.toString("base64"));
    const imported = await waymark(
      { cwd, env: { ...place.env, WAYMARK_STORAGE: "files:imported" } },
      ["import"],
      exported,
    );
    expect(imported).toMatchObject({ code: 0, stderr: "" });
    expect(await recordsOf(cwd, "files:imported")).toEqual(records);
  });
});

// The configuration imports the built package, and the command must know its error classes. So the built command runs.
describe("waymark rekey", () => {
  it("names checkpoints that no key opens, does the rest, and fails", async () => {
    const { cwd, place } = await mixedPlace("sqlite:store.db");
    configure(cwd, { keys: "current" });
    const { code, stdout, stderr } = await waymarkProcess(place, ["rekey"]);
    expect([code, stdout]).toEqual([1, "Rekeyed 2 payloads; 1 had the current key already.\n"]);
    expect(stderr).toMatch(/it is encrypted with the key "old", which isn't configured \(configured: current\)/);
    expect(stderr).toMatch(/5 payloads were not rewritten, for the reasons above\. Keep the old keys/);
  });

  it("reports the counts and the checkpoints that no key opens to programs", async () => {
    const { cwd, place } = await mixedPlace("sqlite:store.db");
    configure(cwd, { keys: "current" });
    const { code, stdout } = await waymarkProcess(place, ["rekey", "--json", "--prefix", "task-0"]);
    expect(code).toBe(1);
    const result = JSON.parse(stdout);
    expect(result).toMatchObject({ total: 4, done: 4, rewritten: 1, left: 0, refused: 2, damaged: 0 });
    expect(result.refusals[0]).toMatchObject({ taskId: "task-0", code: "DECRYPTION_FAILED", sequence: 2 });
    expect(stdout).not.toContain(KEYS.current.toString("hex"));
  });

  it("counts damaged checkpoints apart from current ones", async () => {
    const { cwd, run } = await mixedPlace("files:store");
    configure(cwd, {});
    const folder = join(cwd, "store", "task-0");
    for (const name of readdirSync(folder).filter((each) => each.endsWith(".json")))
      writeFileSync(join(folder, name), "x");
    const { stdout } = await run("rekey");
    expect(stdout).toBe("Rekeyed 4 payloads; 0 had the current key already.\n");
  });

  it("explains what to configure if there are no transforms", async () => {
    const { run } = await mixedPlace("sqlite:store.db");
    const { code, stderr } = await run("rekey");
    expect([code, stderr]).toEqual([2, expect.stringContaining("No transforms are configured")]);
  });

  it("reports why the function that fetches a key failed, without control characters", async () => {
    const { cwd, place } = await mixedPlace("sqlite:store.db");
    const failing = `() => { throw new Error("the KMS is down \\u001b[31m", { cause: new Error(old.toString("hex")) }); }`;
    configure(cwd, { keys: `old, current: ${failing}` });
    for (const command of ["rekey", "show"]) {
      const { code, stderr } = await waymarkProcess(
        place,
        command === "show" ? ["show", "task-0", "--state"] : ["rekey"],
      );
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(
          /^waymark: The key current could not .*\[KEY_UNAVAILABLE\]: the KMS is down \\u001b\[31m\n$/,
        ),
      ]);
    }
  });

  it("shows nothing of a key if a state can't be shown without one", async () => {
    const { cwd, place } = await mixedPlace("sqlite:store.db");
    configure(cwd, { keys: "current" });
    const { code, stdout, stderr } = await waymarkProcess(place, ["show", "task-1", "--state", "--verbose"]);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/\[DECRYPTION_FAILED\]/);
    for (const key of Object.values(KEYS)) expect(stderr).not.toContain(key.toString("hex"));
  });
});
