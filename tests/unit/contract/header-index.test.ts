import { hash } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { CorruptRecord, JsonObject } from "waymark";
import {
  type CheckpointDraft,
  isCorrupt,
  readHeader,
  requireIntact,
  type SealedSummary,
  type StoredCheckpoint,
  sealDraft,
  selectHeaders,
  selectTasks,
  toHeader,
  toSummary,
} from "waymark/adapter";

const PLACE = { location: "headers:t", taskId: "t" };
const KNOWN = { id: "c4", sequence: 4 };

describe("readHeader", () => {
  it.each([
    ["text", (record: StoredCheckpoint) => JSON.stringify(toHeader(record))],
    ["value", (record: StoredCheckpoint): JsonObject => JSON.parse(JSON.stringify(toHeader(record)))],
  ])("gives what toHeader made, from its JSON as %s", (_form, stored) => {
    const record = checkpoint({ stage: "s", metadata: { a: [1] }, error: { message: "m" } });
    const { body: _body, ...digest } = record.payload;
    expect(readHeader(stored(record), PLACE)).toStrictEqual({ ...record, payload: digest });
  });

  it.each([
    ["text that was cut short", (text: string) => text.slice(0, -1), {}],
    ["no object", () => "[]", {}],
    ["a field of another type", (text: string) => text.replace('"stateVersion":1', '"stateVersion":"1"'), KNOWN],
    ["a field that was changed", (text: string) => text.replace("running", "paused"), KNOWN],
    ["a header without its payload", (text: string) => text.replace("payload", "payloads"), KNOWN],
  ])("gives a CorruptRecord for %s, with as much as it can be known by", (_what, damage, known) => {
    const found = readHeader(damage(JSON.stringify(toHeader(checkpoint()))), PLACE);
    expect(found).toMatchObject({ corrupt: true, ...PLACE, ...known, reason: expect.stringMatching(/\w/) });
  });

  it.each([{ taskId: "u" }, { id: "c5" }, { sequence: 5 }])(
    "gives a CorruptRecord for one that isn't %j's",
    (witness) => {
      const found = readHeader(JSON.stringify(toHeader(checkpoint())), { ...PLACE, ...witness });
      expect(found).toMatchObject({ corrupt: true, ...witness });
    },
  );
});

describe("selectHeaders", () => {
  const lost: CorruptRecord = { corrupt: true, ...PLACE, reason: "gone" };
  const damaged: CorruptRecord = { ...lost, id: "c3", sequence: 3 };
  const [one, two, four, five] = [1, 2, 4, 5].map((sequence) => headerAt(sequence)) as SealedSummary[];
  const headers = [four, two, damaged, five, one] as (SealedSummary | CorruptRecord)[];
  const select = (query: object, from = headers) =>
    Array.from(selectHeaders(from, { taskId: "t", order: "newest", ...query }), ({ sequence }) => sequence);

  it.each([
    [{}, [5, 4, 3, 2, 1]],
    [{ order: "oldest" }, [1, 2, 3, 4, 5]],
    [{ beforeSequence: 5, afterSequence: 1 }, [4, 3, 2]],
    [{ beforeSequence: 3 }, [2, 1]],
    [{ skip: 1 }, [4, 3, 2, 1]],
    [{ skip: 1, limit: 2 }, [4, 3, 2]],
    [{ limit: 2 }, [5, 4]],
    [{ limit: 0 }, []],
    [{ stage: "even" }, [4, 3, 2]],
    [{ status: ["paused"] }, [3]],
  ])("gives for %j the sequences %j, where 3 is damaged", (query, expected) => {
    expect(select(query)).toEqual(expected);
  });

  it.each(["newest", "oldest"])("returns a checkpoint with an unknown sequence first, for the %s", (order) => {
    expect(select({ order, limit: 1, beforeSequence: 5 }, [...headers, lost])).toHaveLength(2);
    expect(select({ order, limit: 1, beforeSequence: 5 }, [...headers, lost])[0]).toBeUndefined();
  });
});

describe("selectTasks", () => {
  const damaged: CorruptRecord = { corrupt: true, ...PLACE, reason: "gone", id: "c9", sequence: 9 };
  const tasks = [
    { taskId: "b", count: 2, lastSequence: 2, headers: [headerAt(1, "b"), headerAt(2, "b")] },
    {
      taskId: "a",
      count: 3,
      lastSequence: 9,
      headers: [headerAt(3, "a"), { ...damaged, taskId: "a" }, headerAt(2, "a")],
    },
    { taskId: "lost", count: 1, lastSequence: 9, headers: [{ ...damaged, taskId: "lost" }] },
    { taskId: "empty", count: 0, lastSequence: 0, headers: [] },
  ];
  const select = (query: object) =>
    Array.from(selectTasks(tasks, { order: "taskId", ...query }), (item) =>
      isCorrupt(item) ? `damaged ${item.taskId}` : `${item.taskId} ${item.count} ${item.newest?.sequence}`,
    );

  it.each([
    [{}, ["damaged a", "a 3 3", "b 2 2", "damaged lost"]],
    [{ order: "recent" }, ["damaged lost", "damaged a", "a 3 3", "b 2 2"]],
    [{ prefix: "b" }, ["b 2 2"]],
    [{ after: "a" }, ["b 2 2", "damaged lost"]],
    [{ limit: 1 }, ["damaged a", "a 3 3"]],
    [{ status: ["paused"] }, ["damaged a", "damaged lost"]],
  ])("gives for %j each task by its newest readable checkpoint, after its damaged ones: %j", (query, expected) => {
    expect(select(query)).toEqual(expected);
  });

  it("returns summaries without digest and seal", () => {
    const [, task] = selectTasks(tasks, { order: "taskId", limit: 1 });
    expect(task).toStrictEqual({ taskId: "a", count: 3, lastSequence: 9, newest: toSummary(headerAt(3, "a")) });
  });
});

describe("requireIntact", () => {
  it("returns an intact checkpoint and an intact header", () => {
    const record = checkpoint();
    expect(requireIntact(record)).toBe(record);
    const header = toHeader(record);
    expect(requireIntact(header)).toBe(header);
  });

  it.each([
    [
      "a CorruptRecord",
      { corrupt: true, ...PLACE, id: "c4", reason: "its payload is missing" } as const,
      /missing \(headers:t\)/,
    ],
    ["a broken seal", { ...toHeader(checkpoint()), label: "changed" }, /seal/],
    ["a payload with another digest", withBody(checkpoint(), "{}"), /SHA-256/],
  ])("refuses %s, and says what is damaged and what is intact", (_what, found, reason) => {
    const error = catchError(() => requireIntact<SealedSummary | StoredCheckpoint>(found));
    expect(error).toMatchObject({
      code: "CHECKPOINT_CORRUPT",
      message: expect.stringMatching(/^Checkpoint c4 of task "t"/),
    });
    expect(error).toMatchObject({ message: expect.stringMatching(reason) });
    expect(error).toMatchObject({ message: expect.stringContaining("left untouched") });
  });
});

function headerAt(sequence: number, taskId = "t"): SealedSummary {
  const stage = sequence % 2 === 0 ? "even" : "odd";
  return toHeader(sealDraft({ ...draft(), taskId, id: `c${sequence}`, stage }, sequence));
}

/** Checkpoint c4 of task t, under sequence 4. */
function checkpoint(parts: Partial<CheckpointDraft> = {}): StoredCheckpoint {
  return sealDraft({ ...draft(), ...parts }, 4);
}

function draft(): CheckpointDraft {
  const body = '{"n":4}';
  const payload = { encoding: "json", body, sha256: hash("sha256", body, "hex") };
  const createdAt = "2026-11-25T00:00:00.000Z";
  return { taskId: "t", id: "c4", createdAt, status: "running", stateVersion: 1, sizeBytes: body.length, payload };
}

function withBody(record: StoredCheckpoint, body: string): StoredCheckpoint {
  return { ...record, payload: { ...record.payload, body } };
}

function catchError(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}
