/** The longest line of an export. A JavaScript string can have twice as many characters. */
const MAX_LINE_BYTES = 256 * 1024 * 1024;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const BYTE_ORDER_MARK = "\ufeff";

/**
 * Yields the lines of a stream of bytes, with only the current line in memory.
 *
 * - Only line feeds end a line, because JSON may contain other line separators. Text after the last one is a line too.
 * - A carriage return before a line feed is dropped, and so is a byte order mark at the start: editors and mail add
 *   them.
 *
 * @throws {Error} A line is too long, or isn't UTF-8. The message is the end of a sentence.
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<{ text: string; bytes: number }> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  let isFirst = true;
  const add = (part: Uint8Array): void => {
    parts.push(part);
    bytes += part.length;
    if (bytes > MAX_LINE_BYTES) throw new Error(`it has more than ${MAX_LINE_BYTES} bytes`);
  };
  const take = (): { text: string; bytes: number } => {
    const text = decode(withoutReturn(Buffer.concat(parts, bytes)));
    const line = { text: isFirst && text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text, bytes };
    isFirst = false;
    parts = [];
    bytes = 0;
    return line;
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
      add(chunk.subarray(start, end));
      yield take();
      start = end + 1;
    }
    if (start < chunk.length) add(chunk.subarray(start));
  }
  if (bytes > 0) yield take();
}

function withoutReturn(line: Buffer): Buffer {
  return line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line;
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decode(line: Uint8Array): string {
  try {
    return decoder.decode(line);
  } catch (cause) {
    throw new Error("it isn't UTF-8 text", { cause });
  }
}
