// Tests hand-made histories: possible ones, and ones that no correct store could have produced.
import { expect, it } from "vitest";
import { CheckpointManager, gzip, type StorageAdapter } from "waymark";
import type { LeaseStore } from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import {
  checkHistory,
  type HistoryAction,
  type HistoryCall,
  type HistoryItem,
  type HistoryViolation,
  parseHistory,
  recordHistory,
  type SeenItem,
} from "waymark/testing";
import { draft } from "../../../conformance/drafts.js";
import { collect } from "../../support/collect.js";
import { withMembers } from "../../support/with-members.js";

type Times = readonly [beginMs: number, endMs?: number];
type Appended = Extract<HistoryAction, { is: "append" }>;

const createdAt = "2026-01-01T00:00:00.000Z";
const saved = (id: string, run?: HistoryItem["run"]): HistoryItem => ({
  kind: "checkpoint",
  id,
  createdAt,
  sha256: `of ${id}`,
  ...(run && { run }),
});
const sent = (id: string, name = "m"): HistoryItem => ({ kind: "event", id, name, createdAt, sha256: `of ${id}` });
const step = (name: string, value: string, event?: number, turn = 1): HistoryItem => ({
  kind: "step",
  name,
  recordKey: JSON.stringify(["g", turn, 1, 1, ...(event === undefined ? [] : [event])]),
  createdAt,
  sha256: value,
});
const refusing = (name: string, event: number): HistoryItem => ({ ...step(name, "refused", event), kind: "run" });
const dropping = (first: number, last: number): HistoryItem => ({
  kind: "run",
  recordKey: JSON.stringify(["g", 1, 1]),
  createdAt,
  sha256: "drop",
  dropped: [[first, last]],
});

const call = (
  process: string,
  [beginMs, endMs]: Times,
  action: HistoryAction,
  error?: HistoryCall["error"],
): HistoryCall => ({
  process,
  taskId: "t",
  beginMs,
  ...(endMs !== undefined && { endMs }),
  action,
  ...(error && { error }),
});
const append = (
  process: string,
  times: Times,
  items: readonly HistoryItem[],
  sequence?: number,
  more: Partial<Appended> = {},
) => call(process, times, { is: "append", items, ...(sequence !== undefined && { sequence }), ...more });
const read = (process: string, times: Times, items: readonly SeenItem[], query: object = {}) =>
  call(process, times, { is: "read", query: { order: "oldest", ...query }, items, isWhole: true });
const at = (sequence: number, item: HistoryItem): SeenItem => ({ ...item, sequence });
const claim = (process: string, times: Times, token: number, more: object = {}) =>
  call(process, times, { is: "claim", holder: process, ttlMs: 100, token, ...more });
const under = (fencingToken: number) => ({ condition: { fencingToken } });
const after = (expectedSequence: number) => ({ condition: { expectedSequence } });
const refused = (process: string, times: Times, items: readonly HistoryItem[], condition: Appended["condition"] = {}) =>
  call(process, times, { is: "append", items, condition }, "CHECKPOINT_CONFLICT");
const lost = (process: string, times: Times, fencingToken: number) =>
  call(process, times, { is: "append", items: [step("s", "1")], condition: { fencingToken } }, "LEASE_LOST");
/** A later call, because a process without later calls would count as ended. */
const alive = (process: string, ms: number) =>
  call(process, [ms, ms + 1], { is: "renew", token: 99, ttlMs: 100, isRenewed: false });

const replace = (times: Times, of: string | number, from: string, to: string) =>
  call("r", times, { is: "replace", changes: [{ of, sha256: to, expectedSha256: from }] });

const [a, b, c] = [saved("a"), saved("b"), saved("c")];

it.each<readonly [string, readonly HistoryCall[]]>([
  [
    "a refusal in the last millisecond of a lease, whose end is a whole number",
    [claim("p", [0.6, 10], 1), lost("p", [100.3, 100.5], 1)],
  ],
  [
    "a claim in the last millisecond of a lease, whose end is a whole number",
    [claim("p", [0.8, 1], 1), claim("q", [100.2, 100.7], 2), alive("p", 110)],
  ],
  [
    "a claim after the lease was renewed for a shorter time",
    [
      claim("p", [1, 2], 1),
      call("p", [3, 4], { is: "renew", token: 1, ttlMs: 10, isRenewed: true }),
      claim("q", [20, 21], 2),
      alive("p", 30),
    ],
  ],
  ["appends at the same time, in either order", [append("p", [1, 9], [a], 2), append("q", [2, 8], [b], 1)]],
  ["a read beside an append that sees it", [append("p", [1, 9], [a], 1), read("q", [2, 3], [at(1, a)])]],
  ["a read beside an append that doesn't see it", [append("p", [1, 9], [a], 1), read("q", [2, 3], [])]],
  ["an append without an answer that was stored", [append("p", [1], [a]), read("q", [5, 6], [at(1, a)])]],
  [
    "a refusal beside the save that was its reason",
    [append("p", [1, 2], [a], 1), append("q", [3, 9], [b], 2), refused("p", [4, 5], [c], { expectedSequence: 1 })],
  ],
  [
    "a refusal that an append without an answer may have caused",
    [append("p", [1, 2], [a], 1), append("q", [3], [b]), refused("p", [4, 5], [c], { expectedSequence: 1 })],
  ],
  [
    "a refusal since the checkpoint or event is stored in another form",
    [append("p", [1, 2], [a], 1), refused("p", [4, 5], [{ ...a, sha256: "other" }], { expectedSequence: 1 })],
  ],
  [
    "a change of status that is refused since the checkpoint may be completed",
    [
      append("p", [1, 2], [a], 1),
      call("q", [3, 4], { is: "setStatus", id: "a", items: [], ...after(1) }, "CHECKPOINT_CONFLICT"),
    ],
  ],
  [
    "a refusal since an event came",
    [append("p", [1, 2], [a], 1), append("q", [3, 4], [sent("e")], 2), refused("p", [5, 6], [b], { noEventAfter: 1 })],
  ],
  [
    "a call under a lease that has ended",
    [claim("p", [1, 2], 1), lost("p", [102, 103], 1), claim("p", [110, 111], 2), lost("p", [120, 250], 2)],
  ],
  [
    "payloads that were replaced, also twice",
    [
      append("p", [1, 2], [step("s", "1"), a], 2),
      replace([3, 4], "a", "of a", "other"),
      replace([3, 4], 1, "1", "2"),
      replace([5, 6], 1, "2", "3"),
      read("q", [7, 8], [at(1, step("s", "3")), at(2, { ...a, sha256: "other" })]),
    ],
  ],
  [
    "an append without an answer that wasn't stored",
    [append("p", [1], [a]), append("q", [5, 6], [b], 1), read("q", [7, 8], [at(1, b)])],
  ],
  [
    "an append without an answer, after one of the same id in another form that wasn't stored",
    [
      append("p", [1], [{ ...sent("e"), sha256: "another sender's" }]),
      append("q", [3], [sent("e")]),
      read("q", [7, 8], [at(1, sent("e"))]),
      read("q", [9, 10], [at(1, sent("e"))]),
    ],
  ],
  [
    "a retry that returns the sequence of the first try",
    [append("p", [1], [a]), append("p", [5, 6], [a], 1), append("p", [7, 8], [b], 2)],
  ],
  [
    "a lazy record that a crash has lost",
    [
      append("p", [1, 2], [a], 1),
      append("p", [3, 4], [step("s", "1")], 2, { isLazy: true }),
      { ...call("server", [5, 6], { is: "crash" }), taskId: "" },
      append("q", [7, 8], [b], 2),
    ],
  ],
  [
    "gaps in the numbering",
    [append("p", [1, 2], [a], 3), append("p", [3, 4], [b], 9), read("q", [5, 6], [at(3, a), at(9, b)])],
  ],
  [
    "a checkpoint that another one has replaced",
    [append("p", [1, 2], [a], 1), append("p", [3, 4], [b], 2, { replaces: "a" }), read("q", [5, 6], [at(2, b)])],
  ],
  [
    "records that were removed",
    [
      append("p", [1, 2], [step("s", "1"), a], 2),
      call("p", [3, 4], { is: "remove", what: { kinds: ["step"], beforeSequence: 2 }, count: 1 }),
      read("q", [5, 6], [at(2, a)]),
    ],
  ],
  [
    "a read with a limit",
    [
      append("p", [1, 2], [a], 1),
      append("p", [3, 4], [b], 2),
      read("q", [5, 6], [at(2, b)], { order: "newest", limit: 1 }),
    ],
  ],
  ["a claim after the lease has expired", [claim("p", [1, 2], 1), claim("q", [150, 151], 2), alive("p", 160)]],
  [
    "a claim after a release",
    [claim("p", [1, 2], 1), call("p", [3, 4], { is: "release", token: 1 }), claim("q", [5, 6], 2), alive("p", 9)],
  ],
  ["a claim from a process that has ended", [claim("p", [1, 2], 1), claim("q", [5, 6], 2)]],
  ["a claim by force", [claim("p", [1, 2], 1), claim("q", [5, 6], 2, { isForced: true }), alive("p", 9)]],
  [
    "a step whose result was dropped and recorded again",
    [
      append("p", [1, 2], [step("s", "1")], 1),
      append("p", [3, 4], [dropping(1, 1)], 2),
      append("p", [5, 6], [step("s", "2")], 3),
    ],
  ],
  [
    "an event whose receipt was taken back, and that the next wait received",
    [
      append("p", [1, 2], [sent("e")], 1),
      append("p", [3, 4], [step("m", "1", 1)], 2),
      append("p", [5, 6], [dropping(2, 2)], 3),
      append("p", [7, 8], [step("m", "2", 1)], 4),
    ],
  ],
  [
    "an event that the end of a turn gave back",
    [
      append("p", [1, 2], [sent("e"), saved("a", { generation: "g", turn: 1 })], 2),
      append("p", [3, 4], [step("m", "1", 1)], 3),
      append("p", [5, 6], [saved("b", { generation: "g", turn: 2 })], 4),
      append("p", [7, 8], [step("m", "2", 1, 2)], 5),
    ],
  ],
  [
    "a rewind to a turn that had received an event",
    [
      append("p", [1, 2], [sent("e"), saved("a", { generation: "g", turn: 1 })], 2),
      append("p", [3, 4], [step("m", "1", 1)], 3),
      append("p", [5, 6], [saved("b", { generation: "g", turn: 2, received: [[0, 1]] })], 4),
      append(
        "p",
        [7, 8],
        [{ ...step("m", "1", 1), recordKey: '["h",1,1,1,1]' }, saved("c", { generation: "h", turn: 1 })],
        6,
      ),
    ],
  ],
  [
    "a fork of a turn that had received its second event",
    [
      append(
        "p",
        [1, 2],
        [sent("e"), sent("f"), step("m", "1", 2), saved("a", { generation: "g", turn: 2, received: [[0, 1]] })],
        4,
      ),
    ],
  ],
  [
    "a fork of a turn whose schema had refused its first event",
    [
      append("p", [1, 2], [sent("e"), sent("f"), refusing("m", 1), saved("a", { generation: "g", turn: 1 })], 4),
      append("p", [3, 4], [step("m", "1", 2)], 5),
    ],
  ],
  [
    "two records that look the same, the second one without an answer",
    [
      append("p", [1, 2], [step("s", "1"), step("t", "1")], 2),
      append("p", [3, 4], [dropping(2, 2)], 3),
      append("p", [5], [step("t", "1")]),
      read("q", [7, 8], [at(1, step("s", "1")), at(2, step("t", "1")), at(3, dropping(2, 2)), at(4, step("t", "1"))]),
    ],
  ],
])("accepts %s", (_, history) => {
  expect(checkHistory(history)).toEqual([]);
});

/** The fault, its rule, the history, and the calls that show the fault (by default all). */
const REJECTED: readonly (readonly [string, HistoryViolation["rule"], readonly HistoryCall[], (readonly number[])?])[] =
  [
    ["a sequence that was returned twice", "twice", [append("p", [1, 2], [a], 1), append("q", [3, 4], [b], 1)]],
    [
      "a lazy record that a crash has lost, though a durable one followed it",
      "twice",
      [
        append("p", [1, 2], [step("s", "1")], 1, { isLazy: true }),
        append("p", [3, 4], [a], 2),
        { ...call("server", [5, 6], { is: "crash" }), taskId: "" },
        append("q", [7, 8], [step("s", "2")], 1),
      ],
      [0, 3],
    ],
    ["a token that was given twice", "twice", [claim("p", [1, 2], 1), claim("q", [3, 4], 1)]],
    [
      "a checkpoint from nowhere",
      "unknown",
      [append("p", [1, 2], [a], 1), read("q", [3, 4], [at(1, a), at(2, b)])],
      [1],
    ],
    [
      "a record with another value",
      "changed",
      [append("p", [1, 2], [a], 1), read("q", [3, 4], [at(1, { ...a, sha256: "other" })])],
    ],
    [
      "a refusal though the newest checkpoint was the expected one",
      "condition",
      [append("p", [1, 2], [a], 1), refused("q", [3, 4], [b], { expectedSequence: 1 })],
    ],
    [
      "a refusal though no event had come",
      "condition",
      [append("p", [1, 2], [sent("e")], 1), refused("q", [3, 4], [b], { expectedSequence: 0, noEventAfter: 1 })],
      [1],
    ],
    [
      "a refusal under a lease that was renewed",
      "holders",
      [
        claim("p", [1, 2], 1),
        call("p", [90, 91], { is: "renew", token: 1, ttlMs: 100, isRenewed: true }),
        lost("p", [150, 151], 1),
      ],
      [0, 2],
    ],
    [
      "a payload before it was replaced",
      "changed",
      [
        append("p", [1, 2], [a], 1),
        read("q", [3, 4], [at(1, { ...a, sha256: "other" })]),
        replace([5, 6], "a", "of a", "other"),
      ],
      [0, 1],
    ],
    [
      "a read with a gap",
      "missing",
      [
        append("p", [1, 2], [a], 1),
        append("p", [3, 4], [b], 2),
        append("p", [5, 6], [c], 3),
        read("q", [7, 8], [at(1, a), at(3, c)]),
      ],
      [1, 2, 3],
    ],
    ["half of a batch", "missing", [append("p", [1], [step("s", "1"), a]), read("q", [2, 3], [at(2, a)])]],
    [
      "a read that lacks what was acknowledged",
      "order",
      [append("p", [1, 2], [a], 1), append("p", [3, 4], [b], 2), read("q", [5, 6], [at(1, a)])],
      [2, 1],
    ],
    [
      "a checkpoint that a kill has lost",
      "order",
      [append("p", [1, 2], [a], 1), append("q", [5], [b]), read("q", [7, 8], [])],
      [2, 0],
    ],
    ["sequences against the time", "order", [append("p", [1, 2], [a], 2), append("q", [3, 4], [b], 1)], [1, 0]],
    [
      "a read that goes back",
      "order",
      [append("p", [1], [a]), read("q", [2, 3], [at(1, a)]), read("q", [4, 5], [])],
      [2, 0, 1],
    ],
    ["a read of the future", "order", [read("q", [1, 2], [at(1, a)]), append("p", [3, 4], [a], 1)], [1, 0]],
    [
      "a read in another order",
      "order",
      [append("p", [1, 2], [a], 1), append("p", [3, 4], [b], 2), read("p", [5, 6], [at(2, b), at(1, a)])],
      [2],
    ],
    ["a read of an item twice", "order", [append("p", [1, 2], [a], 1), read("p", [3, 4], [at(1, a), at(1, a)])], [1]],
    [
      "a removed checkpoint that came back",
      "removed",
      [
        append("p", [1, 2], [a], 1),
        call("p", [3, 4], { is: "remove", what: ["a"], count: 1 }),
        read("q", [5, 6], [at(1, a)]),
      ],
    ],
    [
      "a write on a wrong condition",
      "condition",
      [append("p", [1, 2], [a], 1), append("p", [3, 4], [b], 2), append("q", [5, 6], [c], 3, after(1))],
      [1, 2],
    ],
    [
      "a first save of a task that exists",
      "condition",
      [append("p", [1, 2], [a], 1), append("q", [3, 4], [b], 2, after(0))],
    ],
    [
      "an older token after a newer one",
      "fencing",
      [
        claim("p", [1, 2], 1),
        claim("q", [150, 160], 2),
        append("q", [161, 162], [a], 1, under(2)),
        append("p", [163, 164], [b], 2, under(1)),
      ],
      [2, 3],
    ],
    [
      "a changed status under an older token",
      "order",
      [
        append("p", [1, 2], [a], 1),
        claim("p", [3, 4], 1),
        claim("q", [150, 160], 2),
        call("p", [161, 162], { is: "setStatus", id: "a", items: [], isChanged: true, condition: { fencingToken: 1 } }),
      ],
      [3, 2],
    ],
    [
      "a removal under an older token",
      "order",
      [
        append("p", [1, 2], [a], 1),
        claim("p", [3, 4], 1),
        claim("q", [150, 160], 2),
        call("p", [161, 162], { is: "remove", what: ["a"], count: 1, condition: { fencingToken: 1 } }),
      ],
      [3, 2],
    ],
    [
      "a changed status under a token that no claim was given",
      "fencing",
      [
        append("p", [1, 2], [a], 1),
        call("p", [3, 4], { is: "setStatus", id: "a", items: [], isChanged: true, condition: { fencingToken: 7 } }),
      ],
      [1],
    ],
    [
      "an older token after the claim of a newer one",
      "order",
      [claim("p", [1, 2], 1), claim("q", [150, 160], 2), append("p", [161, 162], [b], 1, under(1))],
      [2, 1],
    ],
    [
      "a lease that was renewed after another claim",
      "order",
      [
        claim("p", [1, 2], 1),
        claim("q", [150, 160], 2),
        call("p", [161, 162], { is: "renew", token: 1, ttlMs: 100, isRenewed: true }),
      ],
      [2, 1],
    ],
    ["two holders at once", "holders", [claim("p", [1, 2], 1), claim("q", [50, 60], 2), alive("p", 70)], [0, 1]],
    [
      "two holders at once, after a renewal",
      "holders",
      [
        claim("p", [1, 2], 1),
        call("p", [90, 91], { is: "renew", token: 1, ttlMs: 100, isRenewed: true }),
        claim("q", [150, 160], 2),
        alive("p", 170),
      ],
      [0, 1, 2],
    ],
    ["tokens against the time", "order", [claim("p", [150, 160], 1), claim("q", [1, 2], 2)], [1, 0]],
    [
      "a step with two results",
      "step",
      [append("p", [1, 2], [step("s", "1")], 1), append("q", [3, 4], [step("s", "2")], 2)],
    ],
    [
      "an event that was received twice in a turn",
      "event",
      [
        append("p", [1, 2], [sent("e"), saved("a", { generation: "g", turn: 1 })], 2),
        append("p", [3, 4], [step("m", "1", 1)], 3),
        append("p", [5, 6], [step("n", "2", 1)], 4),
      ],
    ],
    [
      "an event that was received in two turns",
      "event",
      [
        append("p", [1, 2], [sent("e"), saved("a", { generation: "g", turn: 1 })], 2),
        append("p", [3, 4], [step("m", "1", 1)], 3),
        append("p", [5, 6], [saved("b", { generation: "g", turn: 2, received: [[0, 1]] })], 4),
        append("p", [7, 8], [step("m", "2", 1, 2)], 5),
      ],
      [0, 3],
    ],
    [
      "an event that was passed over",
      "event",
      [
        append("p", [1, 2], [sent("e")], 1),
        append("p", [3, 4], [sent("f"), saved("a", { generation: "g", turn: 1 })], 3),
        append("p", [5, 6], [step("m", "1", 2)], 4),
      ],
    ],
    [
      "an event that counts as received, and that no wait has received",
      "event",
      [
        append("p", [1, 2], [saved("a", { generation: "g", turn: 1 })], 1),
        append("p", [3, 4], [sent("e")], 2),
        append("p", [5, 6], [saved("b", { generation: "g", turn: 2, received: [[0, 2]] })], 3),
      ],
      [1, 2],
    ],
    [
      "a write on the condition that no event had come, after one",
      "condition",
      [
        append("p", [1, 2], [sent("e")], 1),
        append("p", [3, 4], [sent("f")], 2),
        append("q", [5, 6], [a], 3, { condition: { noEventAfter: 1 } }),
      ],
      [1, 2],
    ],
    [
      "a read of events that returned a checkpoint",
      "unasked",
      [append("p", [1, 2], [a], 1), read("q", [3, 4], [at(1, a)], { kinds: ["event"] })],
      [1],
    ],
    [
      "a read that returned what it had read before",
      "unasked",
      [append("p", [1, 2], [a], 1), read("q", [3, 4], [at(1, a)], { afterSequence: 1 })],
      [1],
    ],
    [
      "a read that returned more than its limit",
      "unasked",
      [
        append("p", [1, 2], [sent("e")], 1),
        append("p", [3, 4], [sent("f")], 2),
        read("q", [5, 6], [at(1, sent("e")), at(2, sent("f"))], { limit: 1 }),
      ],
      [2],
    ],
    [
      "an event that was stored twice",
      "twice",
      [
        append("p", [1, 2], [sent("e")], 1),
        append("q", [3], [sent("e")]),
        read("r", [5, 6], [at(1, sent("e")), at(2, sent("e"))]),
      ],
      [0, 1],
    ],
  ];

it.each(REJECTED.map(([what, ...rest]) => [what, rest] as const))("rejects %s", (_, [rule, history, shown]) => {
  const found = checkHistory(history);
  expect(found.map((violation) => violation.rule)).toEqual([rule]);
  expect(found[0]?.calls.map((one) => history.indexOf(one))).toEqual(shown ?? history.map((_call, index) => index));
});

it("accepts that tasks were removed by their prefix", async () => {
  const lines: string[] = [];
  const memory = new MemoryAdapter();
  const storage = recordHistory(memory, { process: "p", write: (line) => lines.push(line) });
  const manager = new CheckpointManager({ storage });
  await manager.save("old/1", {});
  await manager.save("new/1", {});
  await manager.removeTask({ prefix: "old/" });
  await manager.save("old/1", {});
  await manager.latest("old/1");
  expect(checkHistory(parseHistory(lines))).toEqual([]);

  await memory.remove("new/1", "all");
  await manager.latest("new/1");
  expect(checkHistory(parseHistory(lines))).toMatchObject([{ taskId: "new/1" }]);
});

it("describes what is wrong, with the calls that show it", () => {
  const history = [append("p", [1, 2], [a], 1), append("p", [3, 4], [b], 2, under(1)), read("q", [5, 6], [at(1, a)])];
  expect(checkHistory(history)[0]?.message).toMatchInlineSnapshot(`
    "Task "t": The read lacks sequence 2. So each of these calls came before the next one, but the last one ended before the first one began.
      5.0–6.0 ms, q: read {"order":"oldest"} → sequences 1
      3.0–4.0 ms, p: append checkpoint "b", under token 1 → sequence 2"
  `);
});

it("leaves out the half line of a process that was killed while it wrote", async () => {
  const text = await historyOf(new MemoryAdapter(), async (storage) => {
    await storage.append(draft("t", "a"));
    await storage.append(draft("t", "b"));
  });
  const torn = text.slice(0, -20);
  const answers = (history: readonly HistoryCall[]) =>
    history.flatMap(({ action }) => (action.is === "append" ? (action.sequence ?? "none") : []));
  expect(answers(parseHistory([text]))).toEqual([1, 2]);
  expect(answers(parseHistory([torn]))).toEqual([1, "none"]);
  expect(() => parseHistory([`${torn}\n${text}`])).toThrow(SyntaxError);
});

it("refuses the history of two processes with one name, and unknown or missing options", async () => {
  const life = () => historyOf(new MemoryAdapter(), (storage) => storage.append(draft("t", "a")));
  const [first, second] = [await life(), await life()];
  expect(() => parseHistory([first, second])).toThrow('Two processes of the history are named "p"');
  const open = (options: object) => () => recordHistory(new MemoryAdapter(), options as never);
  const write = () => undefined;
  expect(open({ proces: "p", write })).toThrow('RecordHistoryOptions has no "proces"');
  expect(open({ process: "p" })).toThrow("RecordHistoryOptions.write is missing");
  expect(open({ process: "p", write, nowMs: 7 })).toThrow("RecordHistoryOptions.nowMs");
});

it.each([["worker-1.history"], [Buffer.from("{}")], [undefined]])("refuses %o as the text of a history", (text) => {
  expect(() => parseHistory([text as string])).toThrow("parseHistory needs the texts");
});

it("accepts that a run with compressed records runs a failed step again and takes a wait's event back", async () => {
  const lines: string[] = [];
  const storage = recordHistory(new MemoryAdapter(), { process: "p", write: (line) => void lines.push(line) });
  const manager = new CheckpointManager({ storage, transforms: [gzip()] });
  await manager.send("t", "m", "a value");
  let calls = 0;
  const attempt = () =>
    manager.run("t", async (run) => {
      await run.waitFor("m");
      await run.step("fails once", () => {
        calls += 1;
        if (calls === 1) throw new Error("planned");
      });
    });
  await expect(attempt()).rejects.toThrow("planned");
  await manager.retry("t", { from: "m" });
  await attempt();
  await manager.close();
  expect(calls).toBe(2);
  expect(checkHistory(parseHistory([lines.join("")]))).toEqual([]);
});

it.each<readonly [string, HistoryViolation["rule"] | undefined, Broken]>([
  ["works", undefined, () => ({})],
  [
    "forgets fencing tokens",
    "fencing",
    (memory) => ({
      append: (one, { fencingToken: _, ...condition } = {}, options) => memory.append(one, condition, options),
    }),
  ],
  [
    "acknowledges what it doesn't store",
    "twice",
    (memory) => ({ append: (one, ...more) => (one.id === "a" ? Promise.resolve(1) : memory.append(one, ...more)) }),
  ],
  [
    "reads what was there before",
    "order",
    (memory) => ({ list: (query) => memory.list({ ...query, beforeSequence: 2 }) }),
  ],
  [
    "grants a lease that is held",
    "holders",
    ({ leases }) => ({
      leases: withMembers<LeaseStore>(leases, {
        claim: (taskId, holder, ttlMs) => leases.claim(taskId, holder, ttlMs, { force: true }),
      }),
    }),
  ],
])("decides about the history of a storage that %s", async (_, rule, broken) => {
  const memory = new MemoryAdapter();
  const history = await historyOf(withMembers<StorageAdapter>(memory, broken(memory)), async (storage) => {
    const { leases } = storage;
    const claims = [await leases?.claim("t", "one", 60_000), await leases?.claim("t", "two", 60_000, { force: true })];
    const [one, two] = claims.map((claim) => (claim?.isGranted ? claim.token : 0));
    await storage.append(draft("t", "a"), { fencingToken: two });
    await storage.append(draft("t", "b"), { fencingToken: one }).catch(() => 0);
    await storage.append(draft("t", "c"));
    await leases?.claim("t", "three", 60_000);
    await collect(storage.list({ taskId: "t", order: "newest" }));
  });
  expect(checkHistory(parseHistory(history)).map((violation) => violation.rule)).toEqual(
    rule === undefined ? [] : [rule],
  );
});

type Broken = (memory: MemoryAdapter) => { readonly [Key in keyof StorageAdapter]?: StorageAdapter[Key] };

/** Returns the lines that process "p" writes while it calls the storage. */
async function historyOf(
  storage: StorageAdapter,
  use: (recorded: StorageAdapter) => Promise<unknown>,
): Promise<string> {
  let text = "";
  const write = (line: string) => {
    text += line;
  };
  await use(recordHistory(storage, { process: "p", write }));
  return text;
}
