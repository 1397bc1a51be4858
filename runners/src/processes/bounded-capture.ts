import { StringDecoder } from "node:string_decoder";

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
   * @param maxBytes - How many bytes are kept; 0 or more.
   * @param headBytes - How many of these bytes are kept from the beginning. Default: half.
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

  /** Returns the output so far, as UTF-8. An incomplete character is left out. */
  text(): string {
    this.#trimTail();
    const head = Buffer.concat(this.#head);
    const tail = Buffer.concat(this.#tail);
    const cut = this.#total - head.length - tail.length;
    if (cut === 0) return wholeCharacters(Buffer.concat([head, tail]));
    // No character has more than three bytes after its first one.
    const start = tail.subarray(0, 3).findIndex((byte) => (byte & 0xc0) !== 0x80);
    const end = wholeCharacters(tail.subarray(start === -1 ? 3 : start));
    return `${wholeCharacters(head)}\n[… ${cut.toLocaleString("en-US")} bytes cut …]\n${end}`;
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
 * Returns the text if it has at most `maxBytes` bytes as UTF-8. If it is longer, returns its beginning and its end,
 * with the number of cut bytes between them.
 */
export function boundText(text: string, maxBytes: number): string {
  if (Buffer.byteLength(text) <= maxBytes) return text;
  const capture = new BoundedCapture(maxBytes);
  capture.push(Buffer.from(text));
  return capture.text();
}

function wholeCharacters(bytes: Buffer): string {
  return new StringDecoder("utf8").write(bytes);
}
