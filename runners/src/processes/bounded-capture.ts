/**
 * Keeps the output of a process, up to a bound: its beginning and its end, because errors may be in either. Between
 * them, the text says how much was cut. Memory stays below twice the bound.
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
   * @param maxBytes - How many bytes are kept, from 0.
   * @param headBytes - How many of them are kept from the beginning. Default: half.
   */
  constructor(maxBytes: number, headBytes = Math.floor(maxBytes / 2)) {
    this.#headBytes = headBytes;
    this.#tailBytes = maxBytes - headBytes;
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

  /** The output so far, as UTF-8. An incomplete character is left out. */
  text(): string {
    this.#trimTail();
    const head = Buffer.concat(this.#head);
    const tail = Buffer.concat(this.#tail);
    const isWhole = head.length + tail.length === this.#total;
    const start = isWhole ? Buffer.concat([head, tail]) : head;
    const first = start.subarray(0, lastBoundary(start));
    if (isWhole) return first.toString("utf8");
    const last = tail.subarray(firstBoundary(tail), lastBoundary(tail));
    const cut = this.#total - first.length - last.length;
    return `${first.toString("utf8")}\n[… ${cut.toLocaleString("en-US")} bytes cut …]\n${last.toString("utf8")}`;
  }

  #trimTail(): void {
    if (this.#tailLength <= this.#tailBytes) return;
    const all = Buffer.concat(this.#tail);
    // Copies the bytes, because a view would keep the whole buffer in memory.
    this.#tail = [Buffer.from(all.subarray(all.length - this.#tailBytes))];
    this.#tailLength = this.#tailBytes;
  }
}

/**
 * Returns the text if it has at most `maxBytes` bytes as UTF-8. Otherwise returns its two ends, and between them how
 * much was cut.
 */
export function boundText(text: string, maxBytes: number): string {
  if (Buffer.byteLength(text) <= maxBytes) return text;
  const capture = new BoundedCapture(maxBytes);
  capture.push(Buffer.from(text));
  return capture.text();
}

/** Returns where the first whole character begins. */
function firstBoundary(bytes: Buffer): number {
  let at = 0;
  while (at < Math.min(3, bytes.length) && isContinuation(bytes.readUInt8(at))) at += 1;
  return at;
}

/** Returns where the last character begins if it is incomplete; otherwise the length. */
function lastBoundary(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes.readUInt8(bytes.length - back);
    if (isContinuation(byte)) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return back < length ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}
