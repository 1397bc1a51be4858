/**
 * Keeps what a process writes, up to a bound: the first and the last part of it, since errors stand at either end. In
 * between, the text says how much was cut. Memory stays below twice the bound, however much is written.
 */
export class BoundedCapture {
  readonly #headBytes: number;
  readonly #tailBytes: number;
  readonly #head: Buffer[] = [];
  #tail: Buffer[] = [];
  #headLength = 0;
  #tailLength = 0;
  #total = 0;

  /**
   * @param maxBytes - At most so many bytes are kept, from 0.
   * @param headBytes - So many of them from the beginning. Default: half of them.
   */
  constructor(maxBytes: number, headBytes = Math.floor(maxBytes / 2)) {
    this.#headBytes = headBytes;
    this.#tailBytes = maxBytes - this.#headBytes;
  }

  push(chunk: Buffer): void {
    this.#total += chunk.length;
    const toHead = chunk.subarray(0, this.#headBytes - this.#headLength);
    if (toHead.length > 0) {
      this.#head.push(Buffer.from(toHead));
      this.#headLength += toHead.length;
    }
    const toTail = chunk.subarray(toHead.length);
    if (toTail.length === 0) return;
    this.#tail.push(Buffer.from(toTail));
    this.#tailLength += toTail.length;
    if (this.#tailLength > 2 * this.#tailBytes) this.#trimTail();
  }

  /** What was written, as UTF-8; no character is cut in two. */
  text(): string {
    this.#trimTail();
    return boundedText(Buffer.concat(this.#head), Buffer.concat(this.#tail), this.#total);
  }

  /** The same, while it is still being written: a character that has come in part is left out. */
  textSoFar(): string {
    this.#trimTail();
    const head = Buffer.concat(this.#head);
    const tail = Buffer.concat(this.#tail);
    const all = Buffer.concat([head, tail]);
    const begun = all.length - lastBoundary(all);
    const inTail = Math.min(begun, tail.length);
    const wholeHead = head.subarray(0, head.length - (begun - inTail));
    return boundedText(wholeHead, tail.subarray(0, tail.length - inTail), this.#total - begun);
  }

  #trimTail(): void {
    if (this.#tailLength <= this.#tailBytes) return;
    const all = Buffer.concat(this.#tail);
    // A copy: a view would keep all of it in memory.
    this.#tail = [Buffer.from(all.subarray(all.length - this.#tailBytes))];
    this.#tailLength = this.#tailBytes;
  }
}

/** The text, where it has at most `maxBytes` bytes as UTF-8; otherwise its ends, and how much was cut between them. */
export function boundText(text: string, maxBytes: number): string {
  if (text.length * 3 <= maxBytes || Buffer.byteLength(text) <= maxBytes) return text;
  const capture = new BoundedCapture(maxBytes);
  capture.push(Buffer.from(text));
  return capture.text();
}

function boundedText(head: Buffer, tail: Buffer, total: number): string {
  if (head.length + tail.length === total) return Buffer.concat([head, tail]).toString("utf8");
  const start = head.subarray(0, lastBoundary(head));
  const end = tail.subarray(firstBoundary(tail));
  const cut = total - start.length - end.length;
  return `${start.toString("utf8")}\n[… ${cut.toLocaleString("en-US")} bytes cut …]\n${end.toString("utf8")}`;
}

/** Where the last character begins that isn't whole; the length, where all are. */
function lastBoundary(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes.readUInt8(bytes.length - back);
    if (isContinuation(byte)) continue;
    return back < sequenceLength(byte) ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

/** Where the first whole character begins. */
function firstBoundary(bytes: Buffer): number {
  let at = 0;
  while (at < Math.min(3, bytes.length) && isContinuation(bytes.readUInt8(at))) at += 1;
  return at;
}

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}

function sequenceLength(leadByte: number): number {
  if (leadByte >= 0xf0) return 4;
  if (leadByte >= 0xe0) return 3;
  return leadByte >= 0xc0 ? 2 : 1;
}
