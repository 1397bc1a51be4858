// What of a database's log is damage, and what is a torn tail, or being written by somebody.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, type Logger } from "waymark";
import { openStorage } from "waymark/adapters";
import { damageInLog, lookIntoLog } from "../../../adapters/sqlite/log-check.js";
import { tempFolder } from "../../support/temp-folder.js";

const WRITER = fileURLToPath(new URL("../../fixtures/sqlite-append-until-killed.mjs", import.meta.url));
const HEADER_BYTES = 32;
const COMMIT_AT = 4;
const PAGE_AT = 24;

/** The log of a program that was killed, and which of its frames, counted from 1, ends each of its transactions. */
interface Killed {
  readonly path: string;
  readonly log: Buffer;
  readonly ends: readonly number[];
  readonly placeOf: (frame: number) => number;
}

let killed: Killed;

beforeEach(async () => {
  const folder = await tempFolder();
  const made = join(folder, "made.db");
  const path = join(folder, "x.db");
  const manager = await openAt(made);
  for (const n of [1, 2, 3]) await manager.save("t", { n });
  for (const suffix of ["", "-wal"]) copyFileSync(`${made}${suffix}`, `${path}${suffix}`);
  await manager.close();
  const log = readFileSync(`${path}-wal`);
  const frameBytes = PAGE_AT + log.readUInt32BE(8);
  const placeOf = (frame: number) => HEADER_BYTES + (frame - 1) * frameBytes;
  const frames = Array.from({ length: (log.length - HEADER_BYTES) / frameBytes }, (_, index) => index + 1);
  const ends = frames.filter((frame) => log.readUInt32BE(placeOf(frame) + COMMIT_AT) !== 0);
  killed = { path, log, ends, placeOf };
});

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

async function openAt(path: string, logger: Logger = SILENT): Promise<CheckpointManager> {
  const manager = new CheckpointManager({ storage: await openStorage(`sqlite:${path}`), logger });
  onTestFinished(() => manager.close());
  return manager;
}

/** The log with one byte changed in that frame's page, or in what is at `at` of it. */
function brokenAt(frame: number, at = PAGE_AT + 10): Buffer {
  const log = Buffer.from(killed.log);
  const place = killed.placeOf(frame) + at;
  log.writeUInt8(log.readUInt8(place) ^ 0xff, place);
  return log;
}

/** The log with the head of that frame lost, and so whether it ended a transaction. */
function zeroedAt(frame: number): Buffer {
  return Buffer.from(killed.log).fill(0, killed.placeOf(frame), killed.placeOf(frame) + PAGE_AT);
}

const findingsOf = async () => (await (await openAt(killed.path)).verify()).findings;

/** The frames of the last transaction but that many, from its first to its last. */
function transaction(fromLast: number): number[] {
  const end = killed.ends.at(-1 - fromLast) ?? 0;
  const start = (killed.ends.at(-2 - fromLast) ?? 0) + 1;
  return Array.from({ length: end - start + 1 }, (_, index) => start + index);
}

describe("a broken frame", () => {
  it("is a torn tail wherever it is in the last transaction: nobody can tell it from one", async () => {
    const frames = transaction(0);
    expect(frames.length).toBeGreaterThan(1);
    for (const frame of frames) {
      writeFileSync(`${killed.path}-wal`, brokenAt(frame));
      expect(damageInLog(killed.path)).toBeUndefined();
    }
    expect(await findingsOf()).toEqual([]);
  });

  it("is damage wherever it is in the last transaction but one: a whole one comes after it", async () => {
    const frames = transaction(1);
    expect(frames.length).toBeGreaterThan(1);
    for (const frame of frames) {
      for (const log of [brokenAt(frame), brokenAt(frame, 8)]) {
        writeFileSync(`${killed.path}-wal`, log);
        const reason = expect.stringMatching(
          new RegExp(`^frame ${frame} of the log is damaged.*: 2 transactions that were committed are hidden`),
        );
        expect(await findingsOf()).toEqual([{ kind: "database", location: `${killed.path}-wal`, reason }]);
      }
    }
  });

  it("that was the end of its transaction is told where two others follow; after the last but one nobody can", () => {
    const [lastButOne = 0, before = 0] = [killed.ends.at(-2), killed.ends.at(-3)];
    writeFileSync(`${killed.path}-wal`, zeroedAt(before));
    expect(damageInLog(killed.path)?.reason).toMatch(new RegExp(`^frame ${before} of the log is damaged`));
    writeFileSync(`${killed.path}-wal`, zeroedAt(lastButOne));
    expect(damageInLog(killed.path)).toBeUndefined();
  });

  it("that is of another log is no end of a transaction of this one", () => {
    const frame = transaction(0)[0] ?? 0;
    const log = brokenAt(frame);
    // As a power loss leaves it, where the log was begun anew over an older one: its salt is another, and it ended something.
    log.fill(0xaa, killed.placeOf(frame), killed.placeOf(frame) + PAGE_AT);
    writeFileSync(`${killed.path}-wal`, log);
    expect(damageInLog(killed.path)).toBeUndefined();
  });
});

it("a damaged log is warned of before its database is opened, once, and whole ones aren't", async () => {
  const warned = async () => {
    const messages: string[] = [];
    const warn = (_fields: unknown, message?: string) => void messages.push(message ?? "");
    const manager = await openAt(killed.path, { ...SILENT, warn });
    for (let time = 0; time < 2; time++) await manager.list("t");
    return messages;
  };
  writeFileSync(`${killed.path}-wal`, brokenAt(transaction(1)[0] ?? 0));
  expect(await warned()).toEqual([
    expect.stringMatching(/x\.db-wal: frame \d+ of the log is damaged.*copy both files now/),
  ]);
  writeFileSync(`${killed.path}-wal`, killed.log);
  expect(await warned()).toEqual([]);
});

describe("a log that somebody writes to meanwhile", () => {
  it.each<[string, (log: Buffer, frame: number) => Buffer]>([
    ["ends the frame that was half written", () => killed.log],
    ["goes on writing it", (_log, frame) => brokenAt(frame, PAGE_AT + 11)],
    [
      "begins the log anew",
      (log) => {
        const header = Buffer.from(log);
        header.writeUInt32BE(header.readUInt32BE(12) + 1, 12);
        return header;
      },
    ],
  ])("isn't damaged, where that one %s between the two looks", (_what, goOn) => {
    const frame = transaction(1)[0] ?? 0;
    const log = brokenAt(frame);
    writeFileSync(`${killed.path}-wal`, log);
    expect(damageInLog(killed.path)).toBeDefined();
    let looks = 0;
    const look = (location: string) => {
      const seen = lookIntoLog(location);
      if (++looks === 1) {
        expect(seen).toMatchObject({ frame });
        writeFileSync(location, goOn(log, frame));
      }
      return seen;
    };
    expect(damageInLog(killed.path, look)).toBeUndefined();
    expect(looks).toBe(2);
  });

  it("isn't damaged, however often it is looked at", async () => {
    const path = join(await tempFolder(), "checkpoints.db");
    const writer = spawn(process.execPath, [WRITER, path, "c"], { stdio: ["ignore", "pipe", "inherit"] });
    await once(writer.stdout, "data");
    writer.stdout.resume();
    const found = Array.from({ length: 200 }, () => damageInLog(path)).filter((one) => one !== undefined);
    const manager = await openAt(path);
    const { findings } = await manager.verify();
    writer.kill("SIGKILL");
    await once(writer, "exit");
    expect(found).toEqual([]);
    expect(findings).toEqual([]);
  });
});
