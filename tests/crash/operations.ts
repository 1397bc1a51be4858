import type { StorageAdapter } from "waymark";
import {
  type AppendCondition,
  type AppendOptions,
  type CheckpointDraft,
  isCorrupt,
  type Payload,
  type StoredCheckpoint,
} from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import { FOLD } from "../../adapters/sql/history.js";
import { event, record } from "../../conformance/records.js";
import type { StorageRepair } from "../../src/contract/findings.js";
import {
  type LogOptions,
  type PayloadChange,
  RECORD_KINDS,
  type RecordDraft,
  type RecordQuery,
  type RecordSelection,
} from "../../src/contract/log.js";
import { transientMetadata } from "../../src/contract/transient.js";
import { draft } from "../unit/adapters/files/drafts.js";
import { tenth } from "./extent.js";

/** The stores of the crash tests, with the names that program.mjs takes. */
export const STORES = ["json-file", "task-file", "sqlite"] as const;
export type StoreKind = (typeof STORES)[number] | "sqlite-normal";

/** A call of an adapter, in the form that is sent to another process. */
export type Call =
  | readonly ["append", CheckpointDraft, AppendCondition?, AppendOptions?]
  | readonly ["setStatus", ...Parameters<StorageAdapter["setStatus"]>]
  | readonly ["remove", string, readonly string[] | "all"]
  | readonly ["removePrefix", string]
  | readonly ["replacePayload", string, string, Payload, string]
  | readonly ["repair", StorageRepair]
  | readonly ["tasks", { readonly order: "taskId" }]
  | readonly ["read" | "list", { readonly taskId: string; readonly order: "oldest" }]
  | readonly ["log.append", string, readonly RecordDraft[], AppendCondition?, LogOptions?]
  | readonly ["log.read", RecordQuery]
  | readonly ["log.remove", string, RecordSelection]
  | readonly ["log.replacePayloads", string, readonly PayloadChange[]];

/** A question to a store after a crash: a call, or the content of its quarantine. */
export type Question = Call | readonly ["quarantined"];

/**
 * The content of the store before the operation. `transient`: a history and a transient checkpoint. `killed`: a history and
 * the leftovers of a process that was killed in a save. `damaged`: a history in which {@link DAMAGED} are changed, and
 * a leftover. `grown`: a history, and on SQLite one delta less than a bundle needs. `records`: a history, and records.
 */
export type Before = "nothing" | "history" | "transient" | "killed" | "damaged" | "grown" | "records";

export interface Operation {
  readonly name: string;
  readonly before: Before;
  readonly calls: readonly Call[];
  /** The only stores where the operation takes another path. Default: all stores. */
  readonly only?: readonly StoreKind[];
  /** Whether the same calls, made twice, change the store twice. */
  readonly addsTwice?: true;
  /** The calls with their sequences on files after a failed try, for which the log skips a sequence. */
  readonly callsAfterGap?: readonly Call[];
}

/** More than one page of a database. */
const several = "k".repeat(6_000);
/** States of task `u`. Each is longer than the previous one. */
const grown = (id: number) => draft("u", `g${id}`, { body: JSON.stringify("g".repeat(1_100 + 10 * id)) });
const { payload: former } = draft("t", "a2", { body: JSON.stringify(several) });
const { payload: rewritten } = draft("t", "a2", { body: JSON.stringify("r".repeat(5_000)) });

/** The records of task `t` if {@link Before} is `records`; their first sequence is 4. */
const RECORDED = [
  record("s1", { recordKey: '["s1"]', body: JSON.stringify(several) }),
  record("s2"),
  event("e0"),
] as const;

/** Ids of task `t`: its oldest checkpoint, and its newest, whose sequence must not be used again. */
export const DAMAGED: readonly string[] = ["a1", "a3"];
export const REPAIR: Call = ["repair", { leftoversOlderThanMs: 0, dryRun: false }];

const RECORD_OPERATIONS: readonly Operation[] = [
  // An event can be appended again after a failure, because each id counts only once.
  {
    name: "record",
    before: "history",
    calls: [["log.append", "t", [event("e1", { body: JSON.stringify(several) })]]],
  },
  { name: "record of a new task", before: "history", calls: [["log.append", "u", [event("e1")]]] },
  {
    name: "batch of records",
    before: "records",
    calls: [["log.append", "t", ["e1", "e2", "e3"].map((id) => event(id))]],
  },
  { name: "lazy record", before: "records", calls: [["log.append", "t", [event("e1")], {}, { lazy: true }]] },
  {
    name: "append with records",
    before: "records",
    calls: [["append", draft("t", "a4"), {}, { records: [record("s4"), event("e4")] }]],
    callsAfterGap: [["append", draft("t", "a4"), {}, { records: [record("s4"), event("e4")], sequence: 10 }]],
  },
  {
    name: "status with records",
    before: "records",
    calls: [["setStatus", "t", "a3", { status: "completed" }, {}, { records: [record("end", { kind: "run" })] }]],
    addsTwice: true,
  },
  { name: "removal of records", before: "records", calls: [["log.remove", "t", { beforeSequence: 6 }]] },
  {
    name: "payload of a record",
    before: "records",
    calls: [
      ["log.replacePayloads", "t", [{ sequence: 4, payload: rewritten, expectedSha256: RECORDED[0].payload.sha256 }]],
    ],
  },
];

/**
 * The operations that are interrupted at each of their system calls. A new method of the contract needs an entry here,
 * and its arguments in {@link Call}. The expected outcome follows from {@link MemoryAdapter}.
 */
export const OPERATIONS: readonly Operation[] = [
  { name: "create", before: "nothing", calls: [["append", draft("t", "a1")]] },
  { name: "append", before: "history", calls: [["append", draft("t", "a4", { body: JSON.stringify(several) })]] },
  {
    name: "append that replaces",
    before: "transient",
    calls: [["append", draft("t", "p2", { metadata: transientMetadata("p1") }), {}, { replaces: "p1" }]],
  },
  { name: "append that makes a bundle", before: "grown", calls: [["append", grown(FOLD)]], only: ["sqlite"] },
  {
    name: "status",
    before: "history",
    calls: [["setStatus", "t", "a2", { status: "failed", error: { message: "disk on fire" } }]],
  },
  { name: "removal", before: "history", calls: [["remove", "t", ["a1", "a3"]]] },
  { name: "removal of the task", before: "records", calls: [["remove", "t", "all"]] },
  { name: "removal of tasks", before: "history", calls: [["removePrefix", "t"]], only: ["sqlite"] },
  { name: "payload", before: "history", calls: [["replacePayload", "t", "a2", rewritten, former.sha256]] },
  { name: "append after a kill", before: "killed", calls: [["append", draft("t", "a5")]] },
  { name: "repair", before: "damaged", calls: [REPAIR] },
  // On task-file, the log has the same lock and format as on json-file, so CI skips these operations there.
  ...RECORD_OPERATIONS.map(
    (operation): Operation =>
      tenth === undefined ? operation : { ...operation, only: ["json-file", "sqlite", "sqlite-normal"] },
  ),
];

/** Many writes in one process. Only for power losses, where later writes may depend on earlier ones. */
const SESSION: Operation = {
  name: "session",
  before: "nothing",
  calls: [
    ["append", draft("t", "s1")],
    ["append", draft("t", "s2", { body: JSON.stringify(several) })],
    ["setStatus", "t", "s1", { status: "completed" }],
    ["append", draft("u", "s1")],
    ["remove", "t", ["s2"]],
    ["append", draft("t", "s3")],
    ["remove", "u", "all"],
    ["append", draft("u", "s2")],
    ["append", draft("u", "p1", { metadata: transientMetadata(undefined) })],
    ["append", draft("u", "p2", { metadata: transientMetadata("p1") }), {}, { replaces: "p1" }],
    ["append", draft("u", "p3", { metadata: transientMetadata("p2") }), {}, { replaces: "p2" }],
  ],
};

const SESSION_OF_RECORDS: Operation = {
  name: "session of records",
  before: "nothing",
  calls: [
    ["log.append", "t", [event("e1")]],
    ["append", draft("t", "s1")],
    ["log.append", "t", [record("m1", { kind: "mark" })], {}, { lazy: true }],
    ["append", draft("t", "s3")],
    ["log.append", "t", [record("c1", { kind: "chunk", body: JSON.stringify(several) })], {}, { lazy: true }],
    ["log.read", { taskId: "t", order: "oldest", durableOnly: true }],
    ["log.append", "t", [event("e2")], {}, { lazy: true }],
    ["log.append", "t", [event("e2")]],
    ["log.append", "t", [record("m3", { kind: "mark" })], {}, { lazy: true }],
    ["log.append", "t", [record("r1"), record("r2")]],
    ["log.append", "t", [record("m2", { kind: "mark" })], {}, { lazy: true }],
    ["append", draft("t", "s2"), {}, { records: [record("r3")] }],
    ["log.remove", "t", { kinds: ["mark", "chunk"] }],
    ["setStatus", "t", "s2", { status: "completed" }, {}, { records: [record("end", { kind: "run" })] }],
    ["log.append", "u", [record("r1")]],
    ["remove", "u", "all"],
    ["log.append", "u", [record("r2")]],
  ],
};

/**
 * On SQLite, a thread copies the log after the first append, because its text is long, and the log restarts. In the
 * database, the text is short, because it is compressed.
 */
const SESSION_OF_COPIES: Operation = {
  name: "session whose log is copied",
  before: "nothing",
  calls: [
    ["append", draft("t", "s1", { body: JSON.stringify("k".repeat(4_300_000)) })],
    ["remove", "t", "all"],
    ...Array.from({ length: 12 }, (_, at): Call => ["append", draft("u", `s${at}`)]),
  ],
  only: ["sqlite"],
};

export const SESSIONS: readonly Operation[] = [SESSION, SESSION_OF_RECORDS, SESSION_OF_COPIES];

/** The content of a store before an operation on a history. */
export const HISTORY: readonly Call[] = [
  ["append", draft("t", "a1")],
  ["append", draft("other", "x1")],
  ["append", draft("t", "a2", { stage: "half", body: JSON.stringify(several) })],
  ["append", draft("t", "a3", { metadata: { note: "newest" } })],
];

/**
 * The saves after {@link HISTORY} if {@link Before} is `grown`: a state, and others whose changes SQLite stores. The
 * last state is built from all of them, including removed ones.
 */
export const GROWN: readonly Call[] = [
  ...Array.from({ length: FOLD }, (_, id): Call => ["append", grown(id)]),
  ["remove", "u", Array.from({ length: FOLD - 4 }, (_, id) => `g${id}`)],
];

/** The save after {@link HISTORY} if {@link Before} is `transient`. */
export const TRANSIENT: Call = ["append", draft("t", "p1", { metadata: transientMetadata(undefined) })];

/** The append of records after {@link HISTORY} if {@link Before} is `records`. */
export const RECORDS: Call = ["log.append", "t", RECORDED];

/** The interrupted save if {@link Before} is `killed`. */
export const INTERRUPTED: Call = ["append", draft("t", "a4")];

/** The content of a store: its checkpoints by task and id, and its records. */
export interface Contents {
  readonly checkpoints: ReadonlyMap<string, unknown>;
  readonly records: readonly unknown[];
  /** The damaged checkpoints: still in the store, where each read reports them, or moved to quarantine. */
  readonly damaged: { readonly keys: readonly string[]; readonly are: "stored" | "quarantined" };
}

/** The history of a store: its calls, and the damaged checkpoints. */
export interface Past {
  readonly calls: readonly Call[];
  /** The ids of the damaged checkpoints of task `t`. */
  readonly damaged: readonly string[];
  /** The lines of its processes' histories. */
  readonly history: readonly string[];
}

/** The queries that read all records of a store. */
export const RECORD_QUERIES: readonly RecordQuery[] = ["t", "u"].map((taskId) => ({
  taskId,
  order: "oldest",
  kinds: RECORD_KINDS,
}));

/** Returns the content that a store must have before the first call and after each call. */
export async function expectedContents(past: Past, calls: readonly Call[]): Promise<Contents[]> {
  const contents: Contents[] = [];
  for (let done = 0; done <= calls.length; done++) {
    const memory = new MemoryAdapter();
    const doneCalls = calls.slice(0, done);
    for (const call of past.calls) await perform(memory, call);
    // The states of damaged checkpoints aren't returned any more, and their sequences aren't used again.
    await memory.remove("t", past.damaged);
    for (const call of doneCalls) await perform(memory, call);
    const checkpoints = new Map<string, unknown>();
    for (const taskId of ["t", "u", "other"]) {
      for await (const found of memory.read({ taskId, order: "oldest" })) {
        if (!isCorrupt(found)) checkpoints.set(keyOf(found), plain(found));
      }
    }
    const records: unknown[] = [];
    for (const query of RECORD_QUERIES) for await (const item of memory.log.read(query)) records.push(plain(item));
    const keys = past.damaged.map((id) => keyOf({ taskId: "t", id }));
    const isRepaired = doneCalls.some(([method]) => method === "repair");
    contents.push({
      checkpoints,
      records,
      damaged: { keys, are: isRepaired ? "quarantined" : "stored" },
    });
  }
  return contents;
}

/** Whether a power loss may undo the call's effect after its answer. */
export function isLazy(call: Call | undefined): boolean {
  return call?.[0] === "log.append" && call[4]?.lazy === true;
}

export function keyOf({ taskId, id }: Partial<Pick<StoredCheckpoint, "taskId" | "id">>): string {
  return `${taskId}/${id}`;
}

/** Returns the value after JSON.stringify and JSON.parse. */
export function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

/** Makes the call of an adapter, and collects iterations. */
export async function perform(adapter: StorageAdapter, call: Call): Promise<unknown> {
  switch (call[0]) {
    case "append":
      return adapter.append(call[1], call[2], call[3]);
    case "setStatus":
      return adapter.setStatus(call[1], call[2], call[3], call[4], call[5]);
    case "remove":
      return adapter.remove(call[1], call[2]);
    case "removePrefix":
      return adapter.removePrefix?.(call[1]);
    case "replacePayload":
      return adapter.replacePayload?.(call[1], call[2], call[3], call[4]);
    case "repair":
      // A memory adapter can't be damaged.
      return adapter.maintenance && collected(adapter.maintenance.repair(call[1]));
    case "tasks":
      return collected(adapter.tasks(call[1]));
    case "read":
      return collected(adapter.read(call[1]));
    case "list":
      return collected(adapter.list(call[1]));
    case "log.append":
      return adapter.log?.append(call[1], call[2], call[3], call[4]);
    case "log.read":
      return adapter.log ? collected(adapter.log.read(call[1])) : [];
    case "log.remove":
      return adapter.log?.remove(call[1], call[2]);
    case "log.replacePayloads":
      return adapter.log?.replacePayloads?.(call[1], call[2]);
  }
}

async function collected(items: AsyncIterable<object>): Promise<object[]> {
  const all: object[] = [];
  for await (const item of items) all.push("cause" in item ? { ...item, cause: undefined } : item);
  return all;
}
