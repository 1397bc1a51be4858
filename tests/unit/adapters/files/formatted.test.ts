import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { isCorrupt } from "waymark/adapter";
import { collect, draft, idsOf, isWhole } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const stores = { "json-file": newJsonStore, "task-file": newTaskStore };
type Kind = keyof typeof stores;
const KINDS = Object.keys(stores) as Kind[];
const OLDEST = { taskId: "t", order: "oldest" } as const;

/** States that careless reformatting would change, in the form that JSON.stringify writes. */
const BODIES: Record<string, string | Uint8Array> = {
  keys: '{"1":"one","10":"ten","b":1,"a":2,"__proto__":{"x":[]},"":null}',
  numbers: "[0,1e+21,1e-7,0.1,9007199254740992,-5]",
  texts: JSON.stringify(["\ud800", '\u2028 \u0000 \t\n\r\\"', '}, "state":{', "naïve 😀", "  two  spaces  "]),
  empty: "{}",
  nothing: "null",
  text: '"]}"',
  tagged: '{"at":{"$waymark":"Date","value":"1970-01-01T00:00:00.000Z"}}',
  bytes: Uint8Array.of(0, 1, 254, 255, 10, 13),
};

const PARTS = { metadata: { deep: { 2: "b", 1: ["a", 1e21] } }, label: "naïve, after:  ten" };

/** Changes that editors, formatters and Git make to a file. */
const FORMS: Record<string, (text: string) => string> = {
  "another line feed at its end": (text) => `${text}\n`,
  "no line feed at its end": (text) => text.trimEnd(),
  "Windows line ends": (text) => text.replaceAll("\n", "\r\n"),
  "line ends of old Macs": (text) => text.replaceAll("\n", "\r"),
  "a byte order mark": (text) => `\uFEFF${text}`,
  "all in one line": (text) => text.replaceAll("\n", ""),
  "spaces at the ends of its lines": (text) => text.replaceAll("\n", " \t\n"),
  "indented lines": (text) => text.replace(/^|\n/g, "$&  "),
  "a formatter's layout": (text) => JSON.stringify(JSON.parse(text), undefined, 2),
  "a byte order mark, Windows line ends and a formatter's layout": (text) =>
    `\uFEFF${JSON.stringify(JSON.parse(text), undefined, "\t").replaceAll("\n", "\r\n")}\r\n\r\n`,
  "white space around its content": (text) =>
    text.replace(/("(?:[^"\\]|\\.)*")|[{}[\],:]/g, (token, text?: string) => text ?? `\n\t${token} \r\n`),
  "characters written as escapes": (text) =>
    text.replace(/[^\n -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`),
};

function dataFiles(root: string): string[] {
  return readdirSync(join(root, "t")).flatMap((name) => (/^[^.].*\.json$/.test(name) ? [join(root, "t", name)] : []));
}

/** A task's files, saved once for all tests. */
const saved = new Map<Kind, Promise<Map<string, string>>>();

async function save(kind: Kind): Promise<Map<string, string>> {
  const { root, adapter } = await stores[kind]();
  for (const [id, body] of Object.entries(BODIES)) await adapter.append(draft("t", id, { body, ...PARTS }));
  return new Map(dataFiles(root).map((path) => [basename(path), readFileSync(path, "utf8")]));
}

async function populated(kind: Kind, form: (text: string) => string) {
  const { root, adapter } = await stores[kind]();
  if (!saved.has(kind)) saved.set(kind, save(kind));
  mkdirSync(join(root, "t"), { recursive: true });
  for (const [name, text] of (await saved.get(kind)) ?? []) writeFileSync(join(root, "t", name), form(text));
  return { adapter, ids: Object.keys(BODIES) };
}

const FORMATTED = KINDS.flatMap((kind) => Object.keys(FORMS).map((form) => [kind, form] as const));

describe.each(FORMATTED)("a %s store whose files have %s", (kind, form) => {
  it("is read as it was saved, without damage", async () => {
    const { adapter, ids } = await populated(kind, FORMS[form]!);
    const stored = await collect(adapter.read(OLDEST));
    expect(stored.map((record) => !isCorrupt(record) && isWhole(record))).toEqual(ids.map(() => true));
    for (const record of stored) {
      expect(isCorrupt(record) ? record : record.payload.body).toEqual(BODIES[record.id ?? ""]);
    }
    expect(await idsOf(adapter.list(OLDEST))).toEqual(ids);
    expect(await collect(adapter.tasks({ order: "recent" }))).toMatchObject([{ taskId: "t", count: ids.length }]);
    const found = await collect(adapter.maintenance.verify({ quick: false }));
    expect(found.map((item) => item.kind)).toEqual(ids.map(() => "checked"));
    expect(await collect(adapter.maintenance.repair({ dryRun: false, leftoversOlderThanMs: 0 }))).toEqual([]);
  });

  it("accepts every change", async () => {
    const { adapter, ids } = await populated(kind, FORMS[form]!);
    const { payload } = draft("t", "x", { body: '{"new":1}' });
    const { sha256 } = draft("t", "x", { body: BODIES["keys"]! }).payload;
    expect(await adapter.append(draft("t", "keys", { body: BODIES["keys"]!, ...PARTS }))).toBe(1);
    expect(await adapter.setStatus("t", "numbers", { status: "completed" })).toBe(true);
    expect(await adapter.replacePayload("t", "keys", payload, sha256)).toBe(true);
    expect(await adapter.remove("t", ["texts", ids.at(-1)!])).toBe(2);
    expect(await adapter.append(draft("t", "next"), { expectedSequence: ids.length - 1 })).toBe(ids.length + 1);
    const left = await collect(adapter.read(OLDEST));
    expect(left.map(({ id }) => id)).toEqual([...ids.filter((id) => id !== "texts").slice(0, -1), "next"]);
    for (const record of left) expect(!isCorrupt(record) && isWhole(record)).toBe(true);
    expect(await adapter.get("t", "numbers")).toMatchObject({
      status: "completed",
      payload: { body: BODIES["numbers"] },
    });
    expect(await adapter.get("t", "keys")).toMatchObject({ payload: { body: '{"new":1}' } });
  });
});

const LAYOUTS = FORMATTED.filter(([, form]) => ["another line feed at its end", "a formatter's layout"].includes(form));

describe.each(LAYOUTS)("a changed value in a %s store whose files have %s", (kind, form) => {
  it.each([
    ["a number", '"b":1,', '"b":2,'],
    ["a text's white space", "  two  spaces  ", " two spaces "],
    ["a key", '"tagged"', '"taggef"'],
    ["the order of keys", '"b":1,"a":2', '"a":2,"b":1'],
    ["a label", "after:  ten", "after: ten"],
    ["a key more", '"b":1,', '"b":1,"c":1,'],
  ])("is damage: %s", async (_what, from, to) => {
    const { adapter } = await populated(kind, (text) => FORMS[form]!(text.replaceAll(from, to)));
    const found = (await collect(adapter.read(OLDEST))).filter((record) => isCorrupt(record) || !isWhole(record));
    expect(found.length).toBeGreaterThan(0);
    const findings = await collect(adapter.maintenance.verify({ quick: false }));
    expect(findings.filter(({ kind }) => kind === "damaged")).toHaveLength(found.length);
  });
});

describe.each(KINDS)("a manager on a %s store that was reformatted", (kind) => {
  it("resumes, forks and diffs its checkpoints", async () => {
    const { root, adapter } = await stores[kind]();
    const former = new CheckpointManager({ storage: adapter, ownsStorage: false });
    for (const n of [1, 2]) await former.save("t", { n, at: new Date(n), text: "ü", big: 10n });
    for (const path of dataFiles(root)) {
      writeFileSync(path, JSON.stringify(JSON.parse(readFileSync(path, "utf8")), undefined, 2));
    }
    const manager = new CheckpointManager({ storage: adapter, ownsStorage: false });
    const newest = (await manager.latest("t"))!;
    expect(newest.state).toEqual({ n: 2, at: new Date(2), text: "ü", big: 10n });
    const fork = await manager.fork("t", newest.id, "u");
    expect(fork).toMatchObject({ taskId: "u" });
    expect((await manager.latest("u"))?.state).toEqual(newest.state);
    await manager.complete("t");
    expect((await manager.latest("t"))?.status).toBe("completed");
    expect((await manager.maintenance.verify()).findings).toEqual([]);
  });
});

it("a json-file of a newer version is refused in any layout, and left untouched", async () => {
  const { root, adapter } = await newJsonStore();
  await adapter.append(draft("t", "a1"));
  const path = join(root, "t", "000000000002-a2.json");
  const newer = JSON.stringify({ waymark: 2, whatever: true }, undefined, 2);
  writeFileSync(path, newer);
  await expect(adapter.get("t", "a2")).rejects.toThrow(`${path} has format version 2`);
  expect(readFileSync(path, "utf8")).toBe(newer);
});

it("reads a lease's file that was reformatted", async () => {
  const { root, adapter, open } = await newJsonStore();
  const claim = await adapter.leases.claim("t", "us", 60_000);
  const path = join(root, "t", ".lease.json");
  writeFileSync(path, `\uFEFF${JSON.stringify(JSON.parse(readFileSync(path, "utf8")), undefined, 2)}\r\n`);
  expect(await open().leases.claim("t", "them", 1_000)).toMatchObject({
    holder: "us",
    isGranted: false,
    token: claim.token,
  });
});
