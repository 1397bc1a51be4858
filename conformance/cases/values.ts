import { existsSync } from "node:fs";
import { basename, resolve } from "node:path";
import { CHECKPOINT_STATUSES } from "../../src/contract/checkpoint.js";
import { same } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { type Appended, type DraftParts, draft, fullDraft } from "../drafts.js";
import { HOSTILE_METADATA, HOSTILE_NAMES, HOSTILE_TEXTS } from "../hostile.js";
import { appendAll, appendAtOnce, collect, expectStored, listIds, listSequences } from "../steps.js";

/** The cases about data. Data must come back unchanged, and the store must not share it with its callers. */
export const valuesCases: readonly ConformanceCase[] = [
  {
    name: "values.fields",
    promise: "returns every field unchanged, adds no fields, and seals the record",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const variants: DraftParts[] = [
        {},
        { stage: "s" },
        { label: "l" },
        { label: "" },
        { parentId: "p" },
        { metadata: {} },
        { metadata: { a: [1.5, -1, 1e21, 5e-324, Number.MAX_SAFE_INTEGER, true, null, { b: "" }], b: 0 } },
        { error: { message: "" } },
        { error: { message: "m", code: "C" } },
        { status: "completed" },
        { status: "paused", error: { message: "m", name: "N", stack: "S" } },
        { createdAt: "1970-01-01T00:00:00.000Z" },
        { createdAt: "9999-12-31T23:59:59.999Z", stateVersion: 2 ** 31 },
      ];
      const all = [...variants.map((parts, index) => draft("t", `c${index}`, parts)), fullDraft("t", "full")];
      const appended = await appendAll(adapter, all);
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, appended);
    },
  },
  {
    name: "values.due-time",
    promise: "keeps the time from which a worker may continue a task, under each status, and seals it",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const parts = CHECKPOINT_STATUSES.map((status, n) => ({ status, dueAt: `2026-01-02T03:04:0${n}.567Z` }));
      const all = parts.map((one) => draft(one.status, "c1", one));
      const appended = await appendAll(adapter, [...all, draft("not-due", "c1", { status: "paused" })]);
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, appended);
      const changed: Appended[] = [];
      for (const one of appended) {
        const status = one.status === "completed" ? "completed" : "failed";
        await adapter.setStatus(one.taskId, one.id, { status });
        changed.push({ ...one, status });
      }
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, changed);
    },
  },
  {
    name: "values.task-names",
    promise: "keeps tasks with similar names apart, and never treats a name as a path or a command",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      // If a store took these two names as paths, they would lead out of its location.
      const outside = [`../${basename(store.location)}-beside`, `${store.location}-absolute`];
      const all = [...HOSTILE_NAMES, ...outside].map((name) => draft(name, "c1", { label: name }));
      const appended = await appendAtOnce(adapter, all);
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, appended);
      for (const path of outside) {
        same(
          existsSync(resolve(store.location, path)),
          false,
          `a taskId MUST NOT be used as a path, so ${path} MUST NOT exist`,
        );
      }
      const removed = ["Task", "..", "a/b", "__proto__"];
      for (const name of removed) {
        same(await adapter.remove(name, "all"), 1, "remove MUST remove the task with exactly that name");
      }
      await expectStored(
        adapter,
        appended.filter(({ taskId }) => !removed.includes(taskId)),
      );
    },
  },
  {
    name: "values.ids",
    promise: "keeps checkpoints with similar ids apart",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const names = [...HOSTILE_NAMES, `${"i".repeat(1023)}x`, `${"i".repeat(1023)}y`];
      const all = names.map((id) => draft("t", id, { parentId: id, stage: id }));
      const appended = await appendAtOnce(adapter, all);
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, appended);
      for (const stage of ["task", "TASK", "caf\u00e9", "a\0b", "'"]) {
        const found = await listIds(adapter.list({ taskId: "t", order: "newest", stage }));
        same(found, [stage], "list MUST compare stages unit by unit");
      }
      same(
        await adapter.setStatus("t", "task", { status: "paused" }),
        true,
        "setStatus MUST find the checkpoint with exactly that id",
      );
      const removed = ["Task", "..", "cafe\u0301"];
      same(await adapter.remove("t", removed), 3, "remove MUST remove exactly those ids");
      await expectStored(
        adapter,
        appended
          .filter(({ id }) => !removed.includes(id))
          .map((one) => (one.id === "task" ? { ...one, status: "paused" as const } : one)),
      );
    },
  },
  {
    name: "values.text",
    promise: "returns any text in labels, stages, metadata, errors and states unchanged",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const all = HOSTILE_TEXTS.map((text, index) =>
        draft("t", `c${index}`, {
          label: text,
          ...(text === "" ? {} : { stage: text }),
          metadata: JSON.parse(JSON.stringify({ text, [text]: [text] })),
          error: { message: text, name: text, code: text, stack: text },
          body: JSON.stringify({ text, [text]: { [text]: text } }),
        }),
      );
      all.push(
        draft("t", "metadata", { metadata: HOSTILE_METADATA }),
        draft("t", "large", {
          label: "é".repeat(10_000),
          stage: "s".repeat(1024),
          metadata: { pages: Array.from({ length: 500 }, (_, page) => `${page} ${"😀".repeat(40)}`) },
          error: { message: "m", stack: "    at somewhere (file.js:1:1)\n".repeat(2000) },
        }),
      );
      const appended = await appendAll(adapter, all);
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, appended);
    },
  },
  {
    name: "values.payloads",
    promise: "returns payloads byte for byte, text as text and bytes as bytes, even if they are empty or unusual",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const texts = [
        ...['""', "null", "true", "0", "-1", "[]", "{}", "[[]]", '{"":null}', '"null"', "1e+21", "5e-324"],
        // These texts have keys that JSON.parse keeps but an assignment doesn't, and characters that JSON.stringify
        // escapes or doesn't escape.
        ...['{"__proto__":{"a":1},"constructor":1}', '"\\ud800"', '"\\u0000\\u001f\\u007f\u2028\u2029"', '"\\\\\\"/"'],
        ...['{"b":1,"a":2}', '{"1":1,"2":2,"b":3}', '[1,"1",1.5]', '{"state":{"payload":{"sha256":"x"}},"waymark":1}'],
        ...['"state":\n"', '{"corrupt":true,"reason":"none"}'].map((text) => JSON.stringify(text)),
        JSON.stringify(nested(200)),
      ];
      const allBytes = Uint8Array.from({ length: 256 }, (_, byte) => byte);
      const bodies: (string | Uint8Array)[] = [
        ...texts,
        new Uint8Array(),
        allBytes,
        Buffer.from([0]),
        // A view into the middle of a larger buffer.
        new Uint8Array(allBytes.buffer, 100, 10),
        new TextEncoder().encode('{"looks":"like JSON"}'),
        Uint8Array.of(0xef, 0xbb, 0xbf, 0x7b, 0x7d),
        Uint8Array.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0),
      ];
      const all = bodies.map((body, index) => draft("t", `c${index}`, { body }));
      const appended = await appendAll(adapter, all);
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, appended);
    },
  },
  {
    name: "values.large",
    promise: "returns payloads of several megabytes byte for byte",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      // The characters have three bytes and begin at an odd offset, so that a block whose size is a power of two ends
      // inside a character.
      const text = JSON.stringify(`x${"～".repeat(700_000)}`);
      const bytes = new Uint8Array(Buffer.alloc(2_000_003, "an uneven pattern \u{10ffff}"));
      const lines = JSON.stringify(Array.from({ length: 20_000 }, (_, line) => ({ line, text: `line ${line}\n` })));
      const all = [text, bytes, lines].map((body, index) => draft("t", `c${index}`, { body }));
      const appended = await appendAtOnce(adapter, all);
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, appended);
    },
  },
  {
    name: "values.independent",
    promise: "shares nothing with its callers, so that changing a draft or a result later changes nothing in the store",
    async run(store) {
      const adapter = await store.open();
      const given = [
        draft("t", "json", { ...optionalFields(), body: '{"a":1}' }),
        draft("t", "bytes", { ...optionalFields(), body: Uint8Array.of(1, 2, 3) }),
      ];
      const kept = structuredClone(given);
      const sequences = listSequences(await appendAll(adapter, given));
      const expected = kept.map((one, index) => ({ ...one, sequence: sequences[index] ?? 0 }));
      // Change the drafts, as a caller may.
      for (const one of given) spoil(one);
      await expectStored(adapter, expected);
      // Change the results, as a caller may.
      for (const { id } of expected) spoil(await adapter.get("t", id));
      for (const item of await collect(adapter.read({ taskId: "t", order: "newest" }))) spoil(item);
      for (const item of await collect(adapter.list({ taskId: "t", order: "newest" }))) spoil(item);
      for (const item of await collect(adapter.tasks({ order: "taskId" }))) spoil(item);
      await expectStored(adapter, expected);

      const change = { status: "failed" as const, error: { message: "out of disk" } };
      const wanted = structuredClone(change);
      await adapter.setStatus("t", "json", change);
      spoil(change);
      await expectStored(
        adapter,
        expected.map((one) => (one.id === "json" ? { ...one, ...wanted } : one)),
      );
    },
  },
  {
    name: "values.frozen-draft",
    promise: "accepts a frozen draft and a frozen query, and changes no argument",
    async run(store) {
      const adapter = await store.open();
      const one = deepFreeze(draft("t", "c1", { ...optionalFields() }));
      const before = structuredClone(one);
      const sequence = await adapter.append(one, Object.freeze({ expectedSequence: 0 }));
      same(one, before, "append MUST NOT change its draft");
      await expectStored(adapter, [{ ...before, sequence }]);
      const query = deepFreeze({ taskId: "t", order: "newest" as const, status: ["running" as const], limit: 1 });
      same(await listIds(adapter.list(query)), ["c1"], "list MUST take a frozen query");
      same(await listIds(adapter.read(query)), ["c1"], "read MUST take a frozen query");
      const tasks = adapter.tasks(deepFreeze({ order: "recent" as const, status: ["running" as const] }));
      same((await collect(tasks)).length, 1, "tasks MUST take a frozen query");
      const change = deepFreeze({ status: "failed" as const, error: { message: "m" } });
      same(await adapter.setStatus("t", "c1", change), true, "setStatus MUST take a frozen change");
      same(await adapter.remove("t", Object.freeze(["c1"])), 1, "remove MUST take a frozen list of ids");
    },
  },
];

function optionalFields(): DraftParts {
  return { metadata: { list: [{ a: 1 }], text: "kept" }, error: { message: "kept", stack: "kept" }, stage: "kept" };
}

/** Changes every part of a value, at any depth. */
function spoil(value: unknown): void {
  if (ArrayBuffer.isView(value)) {
    new Uint8Array(value.buffer, value.byteOffset, value.byteLength).fill(0xff);
    return;
  }
  if (typeof value !== "object" || value === null) return;
  for (const [key, item] of Object.entries(value)) {
    spoil(item);
    if (typeof item !== "object") Reflect.set(value, key, typeof item === "number" ? 999 : "spoiled");
  }
  Reflect.set(value, "spoiled", true);
}

function deepFreeze<Value extends object>(value: Value): Value {
  for (const item of Object.values(value)) {
    if (typeof item === "object" && item !== null) deepFreeze(item);
  }
  return Object.freeze(value);
}

function nested(depth: number): unknown {
  return depth === 0 ? "deep" : { in: [nested(depth - 1)] };
}
