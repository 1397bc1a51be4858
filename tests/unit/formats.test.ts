import { createHash } from "node:crypto";
import { cpSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { type Checkpoint, CheckpointManager, gzip, UnsupportedFormatError } from "waymark";
import { openStorage } from "waymark/adapters";
import { tempFolder } from "../support/temp-folder.js";

const FORMATS = join(import.meta.dirname, "..", "fixtures", "formats");

/** Stores that users have. A format that changes gets a new version and a folder of its own; these stay as they are. */
const DIGESTS: Readonly<Record<string, string>> = {
  "export/v1/export.ndjson": "92ad6a756401bcc13b1c442e0754f2a73701235a4c0bdebe46fc7a53a395b69f",
  "json-file/v1/%C3%BCn%C3%AFcode%2F%E2%9C%93/000000000001-9-6.json":
    "81451dfec5625c692cfb1f54e68cf75f78687d2f8eef5d06117b032974818191",
  "json-file/v1/numbered/000000000001-8-3.json": "bdcce11382377867e200ecdf31f7413256793c2c39e22f27da89f5648a585d77",
  "json-file/v1/numbered/000000000002-8-4.json": "253c695736459fae2032c4b015db1f3dea1ecb6ceb1e25c0579ea0a67073e4f3",
  "json-file/v1/numbered/numbering.json": "52ca822947f35a8b7866cd4ff3a526ef948a12924aa5093a5c9f9d92b3c52fe4",
  "json-file/v1/rich%20values/000000000001-11-1.json":
    "ec0aea7965c3a8c36a0db19a32f92146fafc44345dce1a93df02a46d0303671e",
  "json-file/v1/zipped/000000000001-6-2.json": "44ad90883956890851f2169b0e1b948b2cc95c2826fcb4b100ec83694b64c1f8",
  "sqlite/v1/checkpoints.db": "27f192e3daa3d5c4c77f55e72ba5904434cce95c7b187b5608f8eddaa1c5377c",
  "task-file/v1/%C3%BCn%C3%AFcode%2F%E2%9C%93/checkpoints.json":
    "0d9ad633b99190292ba34726e4d929d6acb3be41005b0d6ba9a7071a765ae362",
  "task-file/v1/numbered/checkpoints.json": "0f4ed84fba3078c75f72b54938af7ba247a6e8d287e0913f53366e4d01b89c23",
  "task-file/v1/rich%20values/checkpoints.json": "84474e32bd95ec604159c689e51cf143e91d29c741d78210ae7b17dde9b6d665",
  "task-file/v1/zipped/checkpoints.json": "64a50b8595ef93072ed7d747df3db3acd58c095f85ad8119330860ad14c24357",
};

const URLS = {
  "json-file": (folder: string) => `files:${folder}`,
  "task-file": (folder: string) => `tasks:${folder}`,
  sqlite: (folder: string) => `sqlite:${join(folder, "checkpoints.db")}`,
};

it("has every format version as it was first written, to the byte", () => {
  const files = readdirSync(FORMATS, { recursive: true, encoding: "utf8" })
    .filter((name) => name !== "README.md" && statSync(join(FORMATS, name)).isFile())
    .map((name) => [name.replaceAll("\\", "/"), sha256(readFileSync(join(FORMATS, name)))]);
  expect(Object.fromEntries(files)).toEqual(DIGESTS);
});

describe.each(Object.entries(URLS))("%s, format 1,", (name, urlOf) => {
  /** Of a copy, since a database that is opened may be written to. */
  async function openCopy(version = "v1") {
    const folder = await tempFolder();
    cpSync(join(FORMATS, name, version), folder, { recursive: true });
    return {
      folder,
      manager: new CheckpointManager({ storage: await openStorage(urlOf(folder)), transforms: [gzip()] }),
    };
  }

  it("is read whole, and gone on with", async () => {
    const { manager } = await openCopy();
    expect((await manager.tasks()).map(({ taskId, count }) => [taskId, count])).toEqual([
      ["numbered", 2],
      ["rich values", 1],
      ["zipped", 1],
      ["ünïcode/✓", 1],
    ]);
    expect(await manager.latest("rich values")).toMatchObject({
      stage: "validation-gate-2",
      label: 'After the "second" gate',
      metadata: { attempt: 2, tags: ["a", "b"] },
      state: {
        when: new Date(Date.UTC(2026, 10, 21)),
        seen: new Set(["a", 1n]),
        by: new Map([["k", { deep: [undefined, -0, Number.NaN] }]]),
        bytes: Uint8Array.of(0, 127, 255),
        failure: new RangeError("too far"),
        pattern: /a+b/gi,
        text: "wäy ☃ \u2028",
      },
    });
    expect((await manager.latest("zipped"))?.state).toEqual({ list: Array.from({ length: 50 }, (_, index) => index) });
    const numbered: Checkpoint[] = [];
    for await (const checkpoint of manager.history("numbered")) numbered.push(checkpoint);
    expect(numbered.map(({ sequence, status, error, state }) => ({ sequence, status, error, state }))).toEqual([
      { sequence: 2, status: "failed", error: { message: "The gate is shut" }, state: { step: 2 } },
      { sequence: 1, status: "running", error: undefined, state: { step: 1 } },
    ]);
    expect(await manager.latest("ünïcode/✓")).toMatchObject({ status: "completed", state: { step: 1 } });
    expect((await manager.verify()).findings).toEqual([]);
    expect((await manager.save("numbered", { step: 4 })).sequence).toBe(4);
    await manager.close();
  });

  it("of a newer version is refused by name, and left as it is", async () => {
    const { folder, manager } = await openCopy();
    raiseVersion(name, folder);
    const refusal = await manager.latest("numbered").catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(UnsupportedFormatError);
    expect(String(refusal)).toMatch(/version "?[27](\.0)?"?; this program knows version(s up to)? "?1(\.0)?"?\./);
    await expect(manager.save("numbered", {})).rejects.toBeInstanceOf(UnsupportedFormatError);
    const { findings } = await manager.verify();
    expect(findings.map(({ kind }) => kind)).toEqual(["refused"]);
    const { steps } = await manager.repair();
    expect(steps.map(({ action }) => action)).toEqual(["left"]);
    await manager.close();
  });
});

function raiseVersion(name: string, folder: string): void {
  if (name === "sqlite") {
    const database = new Database(join(folder, "checkpoints.db"));
    database.pragma("user_version = 7");
    database.close();
    return;
  }
  const path = join(folder, "numbered", name === "json-file" ? "000000000002-8-4.json" : "checkpoints.json");
  const text = readFileSync(path, "utf8");
  const raised = text.replace('{"waymark":1,', '{"waymark":2,').replace('"version":"1.0"', '"version":"2.0"');
  // With the old seal it would be a damaged digit: another version seals in another way.
  writeFileSync(path, raised.replace('"seal":"', '"seal":"2-'));
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
