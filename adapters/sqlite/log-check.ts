import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import type { DatabaseFinding } from "../../src/adapter.js";

/** See https://www.sqlite.org/fileformat2.html#the_write_ahead_log. The magic's last bit tells the words' byte order. */
const MAGIC = 0x377f0682;
const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const SMALLEST_PAGE_BYTES = 512;
const LARGEST_PAGE_BYTES = 65_536;
/** What is looked at: SQLite keeps a log at 4 MB, unless somebody reads for long; a planted one may be a hole of any size. */
const MAX_LOG_BYTES = 256 * 1024 ** 2;
// A planted link isn't followed, and a planted pipe doesn't block: opening the database refuses them. Windows knows neither.
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * Damage in the middle of a database's log. SQLite reads a log up to the first frame whose checksum fails and takes the
 * rest for a torn tail: a transaction that never ended. That is right after a crash, but where whole transactions come
 * after that frame, they were committed, and are lost. Damage in the last one can't be told from a torn tail.
 */
export function damageInLog(path: string): DatabaseFinding | undefined {
  const location = `${path}-wal`;
  const file = open(location);
  if (file === undefined) return undefined;
  try {
    if (!fstatSync(file).isFile()) return undefined;
    const header = Buffer.alloc(HEADER_BYTES);
    if (readSync(file, header, 0, HEADER_BYTES, 0) < HEADER_BYTES) return undefined;
    const reason = damageIn(file, header);
    const after = Buffer.alloc(HEADER_BYTES);
    readSync(file, after, 0, HEADER_BYTES, 0);
    // Somebody has begun it anew while it was read.
    return reason === undefined || !after.equals(header) ? undefined : { kind: "database", location, reason };
  } finally {
    closeSync(file);
  }
}

function damageIn(file: number, header: Buffer): string | undefined {
  const isBigEndian = (header.readUInt32BE(0) & 1) === 1;
  const start = checksum(header.subarray(0, 24), isBigEndian, [0, 0]);
  const pageBytes = header.readUInt32BE(8);
  if (header.readUInt32BE(0) >>> 1 !== MAGIC >>> 1 || !isSum(header, 24, start) || !isPageSize(pageBytes)) {
    return "the log's header is damaged, so SQLite reads none of it: what was committed since the last checkpoint is hidden";
  }
  const frame = Buffer.alloc(FRAME_HEADER_BYTES + pageBytes);
  const frames = Math.floor((Math.min(fstatSync(file).size, MAX_LOG_BYTES) - HEADER_BYTES) / frame.length);
  let sum = start;
  let broken: number | undefined;
  let hidden = 0;
  for (let index = 0; index < frames; index++) {
    if (readSync(file, frame, 0, frame.length, HEADER_BYTES + index * frame.length) < frame.length) break;
    // Another generation's salt: left there from before the log was begun anew.
    const isCurrent = frame.compare(header, 16, 24, 8, 16) === 0;
    if (broken === undefined) {
      sum = checksum(frame.subarray(FRAME_HEADER_BYTES), isBigEndian, checksum(frame.subarray(0, 8), isBigEndian, sum));
      if (!isCurrent || !isSum(frame, 16, sum)) broken = index;
    } else if (isCurrent && frame.readUInt32BE(4) !== 0) hidden += 1;
  }
  if (broken === undefined || hidden === 0) return undefined;
  return `frame ${broken + 1} of the log is damaged, so SQLite reads none of what comes after it: ${hidden} transactions that were committed are hidden`;
}

function isPageSize(bytes: number): boolean {
  return bytes >= SMALLEST_PAGE_BYTES && bytes <= LARGEST_PAGE_BYTES && Number.isInteger(Math.log2(bytes));
}

type Sum = readonly [number, number];

function checksum(bytes: Buffer, isBigEndian: boolean, [first, second]: Sum): Sum {
  let [a, b] = [first, second];
  for (let at = 0; at + 8 <= bytes.length; at += 8) {
    a = (a + b + (isBigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at))) >>> 0;
    b = (b + a + (isBigEndian ? bytes.readUInt32BE(at + 4) : bytes.readUInt32LE(at + 4))) >>> 0;
  }
  return [a, b];
}

function isSum(bytes: Buffer, at: number, [a, b]: Sum): boolean {
  return bytes.readUInt32BE(at) === a && bytes.readUInt32BE(at + 4) === b;
}

function open(path: string): number | undefined {
  try {
    return openSync(path, READ_FLAGS);
  } catch {
    // There is no log, or SQLite itself will say why it can't be read.
    return undefined;
  }
}
