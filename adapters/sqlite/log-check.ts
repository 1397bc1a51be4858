import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, realpathSync } from "node:fs";
import type { DatabaseFinding, StorageWarning } from "../../src/contract/adapter.js";
import { storageFailure } from "../files/storage-failure.js";

/** See https://www.sqlite.org/fileformat2.html#the_write_ahead_log. The magic's last bit tells the words' byte order. */
const MAGIC = 0x377f0682;
const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const SMALLEST_PAGE_BYTES = 512;
const LARGEST_PAGE_BYTES = 65_536;
/** What is looked at: SQLite keeps a log at 4 MB, unless somebody reads for long; a planted one may be a hole of any size. */
const MAX_LOG_BYTES = 256 * 1024 ** 2;
/** What is looked at before a database is opened: some 10 ms. */
const MAX_BYTES_AT_OPENING = 8 * 1024 ** 2;
// A planted link isn't followed, and a planted pipe doesn't block: opening the database refuses them. Windows knows neither.
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** What is broken in a log, as it was read, and what that hides. */
interface BrokenLog {
  readonly header: Buffer;
  /** The first frame that SQLite doesn't read; none where the header itself is broken. */
  readonly frame: number | undefined;
  readonly bytes: Buffer;
  readonly reason: string;
}

/**
 * Damage in the middle of a database's log. SQLite reads a log up to the first frame whose checksum fails and takes the
 * rest for a torn tail: a transaction that never ended. That is right after a crash, but where whole transactions come
 * after that frame's own, they were committed, and are lost. Damage in the last one can't be told from a torn tail.
 *
 * Others may write meanwhile, so a frame may be read half written. Frames are written in order: one that whole
 * transactions were seen after was ended before they were, so in a second look it is whole, unless it is damaged.
 *
 * @param look - Tests do something between the two looks.
 * @throws {StorageError} The log can't be read.
 */
export function damageInLog(path: string, look = lookIntoLog): DatabaseFinding | undefined {
  // It is beside the file that a link leads to.
  const location = `${realPathOf(path)}-wal`;
  const first = look(location);
  const second = first && look(location);
  if (first === undefined || second === undefined) return undefined;
  const isSame = first.frame === second.frame && first.header.equals(second.header) && first.bytes.equals(second.bytes);
  return isSame ? { kind: "database", location, reason: second.reason } : undefined;
}

/** What whoever is about to open the database should know of its log, since SQLite says nothing. */
export function warningsOfLog(path: string): StorageWarning[] {
  const look = (location: string) => (sizeOf(location) > MAX_BYTES_AT_OPENING ? undefined : lookIntoLog(location));
  let found: DatabaseFinding | undefined;
  try {
    found = damageInLog(path, look);
  } catch (error) {
    return [{ path, message: error instanceof Error ? error.message : String(error) }];
  }
  if (found === undefined) return [];
  const { location, reason } = found;
  const advice =
    "Whoever opens the database goes on without what that hides, and the last one to close it deletes the log: " +
    "copy both files now, and run `waymark verify` on the copies.";
  return [{ path: location, message: `${location}: ${reason}. ${advice}` }];
}

/**
 * What is broken in that log, or is being written.
 *
 * @throws {StorageError} It can't be read.
 */
export function lookIntoLog(location: string): BrokenLog | undefined {
  const file = open(location);
  if (file === undefined) return undefined;
  try {
    const stats = fstatSync(file);
    const header = Buffer.alloc(HEADER_BYTES);
    // Nothing comes after the header: whatever it is, it hides nothing.
    if (!stats.isFile() || stats.size <= HEADER_BYTES) return undefined;
    if (readSync(file, header, 0, HEADER_BYTES, 0) < HEADER_BYTES) return undefined;
    return brokenIn(file, header);
  } catch (error) {
    throw storageFailure(error, { doing: "read the log of a database", path: location, isRead: true });
  } finally {
    close(file);
  }
}

function brokenIn(file: number, header: Buffer): BrokenLog | undefined {
  const isBigEndian = (header.readUInt32BE(0) & 1) === 1;
  const start = checksum(header.subarray(0, 24), isBigEndian, [0, 0]);
  const pageBytes = header.readUInt32BE(8);
  if (header.readUInt32BE(0) >>> 1 !== MAGIC >>> 1 || !isSum(header, 24, start) || !isPageSize(pageBytes)) {
    const reason =
      "the log's header is damaged, so SQLite reads none of it: what was committed since the last checkpoint is hidden";
    return { header, frame: undefined, bytes: header, reason };
  }
  const frame = Buffer.alloc(FRAME_HEADER_BYTES + pageBytes);
  const frames = Math.floor((Math.min(fstatSync(file).size, MAX_LOG_BYTES) - HEADER_BYTES) / frame.length);
  let sum = start;
  let broken: { readonly frame: number; readonly bytes: Buffer } | undefined;
  let ended = 0;
  for (let index = 0; index < frames; index++) {
    if (readSync(file, frame, 0, frame.length, HEADER_BYTES + index * frame.length) < frame.length) break;
    // Another generation's salt: left there from before the log was begun anew.
    let isOfThisLog = frame.compare(header, 16, 24, 8, 16) === 0;
    if (broken === undefined) {
      sum = checksum(frame.subarray(FRAME_HEADER_BYTES), isBigEndian, checksum(frame.subarray(0, 8), isBigEndian, sum));
      const isWhole = isSum(frame, 16, sum);
      if (isOfThisLog && isWhole) continue;
      broken = { frame: index + 1, bytes: Buffer.from(frame) };
      // Then its salt alone is damaged, which the sum leaves out.
      isOfThisLog ||= isWhole;
    }
    if (isOfThisLog && frame.readUInt32BE(4) !== 0) ended += 1;
  }
  // The first of them is the broken frame's own: a crash may have left it so before anybody was told that it had ended.
  if (broken === undefined || ended < 2) return undefined;
  const reason = `frame ${broken.frame} of the log is damaged, so SQLite reads none of what comes after it: ${ended} transactions that were committed are hidden`;
  return { header, ...broken, reason };
}

function isPageSize(bytes: number): boolean {
  return bytes >= SMALLEST_PAGE_BYTES && bytes <= LARGEST_PAGE_BYTES && Number.isInteger(Math.log2(bytes));
}

type Sum = readonly [number, number];

function checksum(bytes: Buffer, isBigEndian: boolean, [first, second]: Sum): Sum {
  const words = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let [a, b] = [first | 0, second | 0];
  for (let at = 0; at + 8 <= bytes.length; at += 8) {
    a = (a + b + words.getInt32(at, !isBigEndian)) | 0;
    b = (b + a + words.getInt32(at + 4, !isBigEndian)) | 0;
  }
  return [a >>> 0, b >>> 0];
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

function close(file: number): void {
  try {
    closeSync(file);
  } catch {
    // It was only read.
  }
}

function sizeOf(path: string): number {
  try {
    return lstatSync(path).size;
  } catch {
    // Then there is nothing to look at either.
    return 0;
  }
}

function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // Then there is no database, or opening it says why not.
    return path;
  }
}
